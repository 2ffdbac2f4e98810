"""The parts of a formula, and how they are written."""

from gridcalc.values import quote_text

PRECEDENCE = {
    "=": 1, "<>": 1, "<": 1, ">": 1, "<=": 1, ">=": 1,
    "&": 2,
    "+": 3, "-": 3,
    "*": 4, "/": 4,
    "^": 6,
}
UNARY_PRECEDENCE = 5
PERCENT_PRECEDENCE = 7
_ATOM = 9


class Node:
    """A part of a formula."""

    precedence = _ATOM

    def children(self):
        """The parts below this one."""
        return ()

    def write(self):
        """The part as formula text, with the parentheses that it needs inside."""
        raise NotImplementedError


class Literal(Node):
    """A number, a text, TRUE or FALSE."""

    def __init__(self, value):
        self.value = value

    def write(self):
        if isinstance(self.value, bool):
            return "TRUE" if self.value else "FALSE"
        if isinstance(self.value, str):
            return quote_text(self.value)
        return repr(self.value)


class ErrorLiteral(Node):
    """An error that stands in the formula itself, such as ``#REF!`` after its cell was deleted."""

    def __init__(self, value):
        self.value = value

    def write(self):
        return self.value.code


class CellNode(Node):
    """A reference to a cell."""

    def __init__(self, ref):
        self.ref = ref

    def write(self):
        return str(self.ref)


class RangeNode(Node):
    """A reference to a rectangle."""

    def __init__(self, ref):
        self.ref = ref

    def write(self):
        return str(self.ref)


class NameNode(Node):
    """A defined name."""

    def __init__(self, name):
        self.name = name

    def write(self):
        return self.name


class Unary(Node):
    """``-x`` or ``+x``."""

    precedence = UNARY_PRECEDENCE

    def __init__(self, operator, operand):
        self.operator = operator
        self.operand = operand

    def children(self):
        return (self.operand,)

    def write(self):
        return self.operator + _inside(self.operand, self.precedence)


class Percent(Node):
    """``x%``."""

    precedence = PERCENT_PRECEDENCE

    def __init__(self, operand):
        self.operand = operand

    def children(self):
        return (self.operand,)

    def write(self):
        return _inside(self.operand, self.precedence) + "%"


class Binary(Node):
    """Two operands and what stands between them."""

    def __init__(self, operator, left, right):
        self.operator = operator
        self.left = left
        self.right = right

    @property
    def precedence(self):
        return PRECEDENCE[self.operator]

    def children(self):
        return (self.left, self.right)

    def write(self):
        # Operators of one level group to the left, so an equal level on the right needs parentheses.
        left = _inside(self.left, self.precedence)
        right = _inside(self.right, self.precedence + 1)
        return f"{left}{self.operator}{right}"


class Call(Node):
    """A function with its arguments."""

    def __init__(self, name, arguments):
        self.name = name
        self.arguments = tuple(arguments)

    def children(self):
        return self.arguments

    def write(self):
        return f"{self.name}({','.join(argument.write() for argument in self.arguments)})"


def _inside(node, least):
    text = node.write()
    return f"({text})" if node.precedence < least else text


def walk(node):
    """A node and everything below it."""
    yield node
    for child in node.children():
        yield from walk(child)


def formula_text(node):
    """A whole formula as a cell shows it."""
    return "=" + node.write()
