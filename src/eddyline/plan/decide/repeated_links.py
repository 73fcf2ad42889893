"""Joins in which one column stands in two links, as `src` and `dst` of a table of edges: which a sample answers.

A value is sampled once, wherever it stands. Two links that share a relation hold one value in rows of that relation
that hold it twice, and those are put right element by element (`sample.join`). Other links hold one value in rows that
only the joined whole tells, and by group or under conditions that is not known.
"""

from eddyline.sample.spec import Shape
from eddyline.sql.query import GroupQuery, Key


def is_answered_whole_only(query: GroupQuery, shape: Shape) -> bool:
    """Return whether a grouped query, or one with conditions between relations, is answered only while all is held."""
    if not query.needs_single_links or not shape.repeats_classes:
        return False
    return bool(query.details) or shape.has_distant_repeats or _groups_by_repeated(query, shape)


def _groups_by_repeated(query: GroupQuery, shape: Shape) -> bool:
    """Return whether a group column is the key of a link whose column stands in another link as well."""
    columns = {(column.relation, Key((column.expression,))) for column in query.groups}
    return any(
        shape.classes.count(shape.classes[place]) > 1
        and any((member.relation, member.key) in columns for member in link.members)
        for place, link in enumerate(query.links)
    )
