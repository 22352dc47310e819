"""All tables of a folder of results."""

from howm.report.results_folder import Results
from howm.report.table import Table
from howm.report.tables.beyond import ablation_table, few_scenes_table, imported_table, negatives_table, variant_table
from howm.report.tables.entries import POOLS
from howm.report.tables.howm import binding_table, howm_table, reach_table, segmentation_table, transfer_table
from howm.report.tables.ladder import ladder_table, other_splits_table, split_table
from howm.report.tables.paper import control_table, cost_table, h1_table, mrr_table, overview


def readme_tables(results: Results) -> list[Table]:
    worlds = [overview(results, env) for env in results.worlds()]
    others = [howm_table(results), reach_table(results), ablation_table(results), transfer_table(results)]
    others += [few_scenes_table(results), segmentation_table(results), negatives_table(results)]
    others += [other_splits_table(results)]
    return [*worlds, *(table for table in others if table.rows)]


def world_tables(results: Results) -> list[Table]:
    """Those of the docs' page of worlds."""
    return [ladder_table(results, "1"), ladder_table(results, "5"), split_table(results)]


def report_tables(results: Results) -> dict[str, list[Table]]:
    """The tables of the report by the heading that they stand under; without those that would be empty."""
    worlds = results.worlds()
    found = {
        "MRR on unseen scenes": [mrr_table(results, env, pool) for env in worlds for pool in POOLS],
        "H@1 on unseen scenes": [h1_table(results, env, pool) for env in worlds for pool in POOLS],
        "HOWM in detail": [howm_table(results), binding_table(results), segmentation_table(results)],
        "Beyond the paper": [
            *(reach_table(results), transfer_table(results), ablation_table(results), few_scenes_table(results)),
            variant_table(results),
        ],
        "Negative sampling": [negatives_table(results)],
        "Worlds beyond the grid": [ladder_table(results, k) for k in ("1", "5", "10")],
        "Splits of other kinds": [split_table(results), other_splits_table(results)],
        "Cost": [cost_table(results, env) for env in worlds],
        "Controls": [control_table(results, env, pool) for env in worlds for pool in POOLS],
        "Imported pictures": [imported_table(results)],
    }
    return {name: kept for name, tables in found.items() if (kept := [table for table in tables if table.rows])}
