"""Formulas that change because something around them does: rows are inserted, cells copied, sheets renamed.

All of these give a new tree and leave the old one to whoever still has it.
"""

from gridcalc import nodes
from gridcalc.addresses import CellRef, RangeRef
from gridcalc.errors import BAD_REF


def mentions(tree, home, sheet):
    """Whether a formula on sheet ``home`` refers to cells of ``sheet``."""
    return any(_is_reference(node) and node.ref.on_sheet(home) == sheet for node in nodes.walk(tree))


def adjusted(tree, home, edit):
    """A formula of sheet ``home`` after rows or columns were inserted or deleted."""

    def leaf(node):
        if node.ref.on_sheet(home) != edit.sheet:
            return node
        kept = edit.carry(node.ref) if isinstance(node, nodes.CellNode) else edit.carry_range(node.ref)
        return type(node)(node.ref) if kept else nodes.ErrorLiteral(BAD_REF)

    return _rebuilt(tree, leaf)


def moved(tree, rows, cols):
    """A formula after it was copied by so many rows and columns."""

    def leaf(node):
        ref = node.ref.offset(rows, cols)
        return nodes.ErrorLiteral(BAD_REF) if ref is None else type(node)(ref)

    return _rebuilt(tree, leaf)


def renamed(tree, old, new):
    """A formula after a sheet got another name."""

    def leaf(node):
        if node.ref.sheet != old:
            return node
        if isinstance(node, nodes.CellNode):
            return nodes.CellNode(_on_sheet(node.ref, new))
        return nodes.RangeNode(RangeRef(_on_sheet(node.ref.start, new), _on_sheet(node.ref.end, new)))

    return _rebuilt(tree, leaf)


def _on_sheet(ref, sheet):
    return CellRef(ref.row, ref.col, ref.row_fixed, ref.col_fixed, sheet)


def _is_reference(node):
    return isinstance(node, (nodes.CellNode, nodes.RangeNode))


def _rebuilt(node, leaf):
    """A tree of the same shape, with its references replaced."""
    if _is_reference(node):
        return leaf(node)
    if isinstance(node, nodes.Unary):
        return nodes.Unary(node.operator, _rebuilt(node.operand, leaf))
    if isinstance(node, nodes.Percent):
        return nodes.Percent(_rebuilt(node.operand, leaf))
    if isinstance(node, nodes.Binary):
        return nodes.Binary(node.operator, _rebuilt(node.left, leaf), _rebuilt(node.right, leaf))
    if isinstance(node, nodes.Call):
        return nodes.Call(node.name, [_rebuilt(argument, leaf) for argument in node.arguments])
    return node
