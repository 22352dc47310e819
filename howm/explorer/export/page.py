"""stub"""
from howm.explorer.export import operations, world_data
SCRIPTS = (*operations.SOURCES, *world_data.SOURCES)
