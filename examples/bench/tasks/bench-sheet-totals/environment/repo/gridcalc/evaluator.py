"""The value of a formula's tree."""

from gridcalc import nodes
from gridcalc.errors import BAD_NAME, BAD_REF, BAD_VALUE
from gridcalc.functions import find_function
from gridcalc.functions.registry import Area, scalar
from gridcalc.values import Failure, compare, divide, power, tidy, to_number, to_text


class Evaluator:
    """Evaluates trees for formulas of one sheet. ``source`` gives values of cells and the trees of names."""

    def __init__(self, source, sheet):
        self.source = source
        self.sheet = sheet

    def value(self, tree):
        """The final value of a formula: never an area, never an exception."""
        try:
            value = scalar(self.evaluate(tree))
        except Failure as failure:
            return failure.value
        except RecursionError:
            return BAD_VALUE
        return 0 if value is None else value

    def evaluate(self, node):
        """The value of a part: a single value or an area."""
        return self._handlers[type(node)](self, node)

    def _literal(self, node):
        return node.value

    def _cell(self, node):
        sheet = node.ref.on_sheet(self.sheet)
        if not self.source.has_sheet(sheet):
            raise Failure(BAD_REF)
        return self.source.cell_value(sheet, node.ref.row, node.ref.col)

    def _range(self, node):
        sheet = node.ref.on_sheet(self.sheet)
        if not self.source.has_sheet(sheet):
            raise Failure(BAD_REF)
        top, left, bottom, right = node.ref.box()
        get = self.source.cell_value
        return Area([[get(sheet, row, col) for col in range(left, right + 1)] for row in range(top, bottom + 1)])

    def _name(self, node):
        tree = self.source.name_tree(node.name)
        if tree is None:
            raise Failure(BAD_NAME)
        return self.evaluate(tree)

    def _unary(self, node):
        number = to_number(scalar(self.evaluate(node.operand)))
        return -number if node.operator == "-" else number

    def _percent(self, node):
        return divide(to_number(scalar(self.evaluate(node.operand))), 100)

    def _binary(self, node):
        left = scalar(self.evaluate(node.left))
        right = scalar(self.evaluate(node.right))
        return _BINARY[node.operator](left, right)

    def _call(self, node):
        function = find_function(node.name)
        if function is None:
            raise Failure(BAD_NAME)
        count = len(node.arguments)
        if count < function.least or (function.most is not None and count > function.most):
            raise Failure(BAD_VALUE)
        if function.lazy:
            return function.body(*(self._later(argument) for argument in node.arguments))
        return function.body(*(self._argument(argument) for argument in node.arguments))

    def _later(self, node):
        return lambda: self.evaluate(node)

    def _argument(self, node):
        # ISERROR and its like want to see the error; those that do not will raise it again.
        try:
            return self.evaluate(node)
        except Failure as failure:
            return failure.value

    _handlers = {
        nodes.Literal: _literal,
        nodes.ErrorLiteral: _literal,
        nodes.CellNode: _cell,
        nodes.RangeNode: _range,
        nodes.NameNode: _name,
        nodes.Unary: _unary,
        nodes.Percent: _percent,
        nodes.Binary: _binary,
        nodes.Call: _call,
    }


def _arithmetic(operation):
    def apply(left, right):
        return tidy(operation(to_number(left), to_number(right)))

    return apply


def _comparison(test):
    def apply(left, right):
        return test(compare(left, right))

    return apply


_BINARY = {
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _arithmetic(divide),
    "^": _arithmetic(power),
    "&": lambda left, right: to_text(left) + to_text(right),
    "=": _comparison(lambda order: order == 0),
    "<>": _comparison(lambda order: order != 0),
    "<": _comparison(lambda order: order < 0),
    ">": _comparison(lambda order: order > 0),
    "<=": _comparison(lambda order: order <= 0),
    ">=": _comparison(lambda order: order >= 0),
}
