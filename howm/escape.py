"""Text of other people's files, made harmless where it is shown: in Markdown and in spreadsheets."""

import re


def markdown(text: str) -> str:
    """One line of Markdown that can hold no tag, no link, no code and no column of its own."""
    line = re.sub(r"\s+", " ", "".join(letter if letter.isprintable() else " " for letter in text))
    line = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", line.replace("`", "'"))
    return line.replace("](", "]\\(").replace("|", "\\|")


def markdown_code(text: str) -> str:
    """The same between backticks."""
    safe = re.sub(r"[`<]|[^ -~]", "_", text).replace("|", "\\|")
    return f"`{safe}`"


def spreadsheet(cell: object) -> object:
    """A cell of CSV that no spreadsheet takes for a formula."""
    if not isinstance(cell, str) or not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
