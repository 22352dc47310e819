"""All tables of a folder of results."""

from howm.report.results_folder import Results
from howm.report.table import Table
from howm.report.tables.beyond import ablation_table, few_scenes_table, imported_table, negatives_table, variant_table
from howm.report.tables.entries import POOLS
from howm.report.tables.howm import binding_table, howm_table, reach_table, segmentation_table, transfer_table
from howm.report.tables.ladder import ladder_table, other_splits_table, split_table
from howm.report.tables.paper import overview
from howm.report.tables.planning import planning_table
from howm.report.tables.positions import positions_table
from howm.report.tables.scores import control_table, cost_table, score_table


def readme_tables(results: Results) -> list[Table]:
    worlds = [overview(results, env) for env in results.worlds()]
    others = [
        howm_table(results),
        positions_table(results),
        reach_table(results),
        ablation_table(results),
        transfer_table(results),
    ]
    others += [few_scenes_table(results), segmentation_table(results), negatives_table(results)]
    others += [other_splits_table(results)]
    return [*worlds, *(table for table in others if table.rows)]


def world_tables(results: Results) -> list[Table]:
    """Those of the docs' page of worlds."""
    tables = (ladder_table(results, "1"), ladder_table(results, "5"), split_table(results))
    return [table for table in tables if table.rows]


def report_tables(results: Results) -> dict[str, list[Table]]:
    """The tables of the report by the heading that they stand under; without those that would be empty."""
    studies = results.studies()
    found = {
        **{
            f"Scores, {name}": [score_table(results, *study, pool) for study in studies] for pool, name in POOLS.items()
        },
        "Worlds beyond the grid": [ladder_table(results, k) for k in ("1", "5", "10")],
        "Splits of other kinds": [split_table(results), other_splits_table(results)],
        "Slots and binding": [binding_table(results), positions_table(results), segmentation_table(results)],
        "Variants": [variant_table(results), ablation_table(results)],
        "Other scenes": [transfer_table(results), few_scenes_table(results)],
        "Planning": [planning_table(results)],
        "Negative sampling": [negatives_table(results)],
        "Cost": [cost_table(results, *study) for study in studies],
        "Controls": [control_table(results, *study) for study in studies],
        "Imported pictures": [imported_table(results)],
    }
    return {name: kept for name, tables in found.items() if (kept := [table for table in tables if table.rows])}
