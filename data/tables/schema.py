"""The store's actual tables, for the generated schema page."""

from dataclasses import dataclass

from data.store import Connection


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    is_nullable: bool
    is_key: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view with its columns in order; a view has no key."""

    name: str
    is_view: bool
    columns: tuple[Column, ...]


def describe(connection: Connection) -> list[Table]:
    """Tables and views by name, without DuckDB's own."""
    keys = {
        (table, column)
        for table, columns in connection.execute(
            "SELECT table_name, constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
        ).fetchall()
        for column in columns
    }
    rows = connection.execute(
        """
        SELECT c.table_name, v.view_name IS NOT NULL, c.column_name, c.data_type, c.is_nullable
        FROM duckdb_columns() c LEFT JOIN duckdb_views() v ON v.view_name = c.table_name AND NOT v.internal
        WHERE NOT c.internal ORDER BY c.table_name, c.column_index
        """
    ).fetchall()
    columns: dict[tuple[str, bool], list[Column]] = {}
    for table, is_view, name, kind, is_nullable in rows:
        columns.setdefault((table, is_view), []).append(Column(name, kind, is_nullable, (table, name) in keys))
    return [Table(name, is_view, tuple(of_it)) for (name, is_view), of_it in columns.items()]
