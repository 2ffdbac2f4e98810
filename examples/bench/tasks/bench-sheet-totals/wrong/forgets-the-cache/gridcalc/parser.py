"""Formula text to a tree of nodes."""

from gridcalc import nodes
from gridcalc.addresses import CellRef, RangeRef
from gridcalc.errors import AddressError, ErrorValue, FormulaError
from gridcalc.lexer import tokenize

_COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
_CACHE_SIZE = 4096

# Sheets repeat the same few formulas over and over (every import and every undo brings them all again), and
# reading one costs more than evaluating it.
_cache = {}


def parse(source):
    """The tree of a formula, given with its ``=``."""
    tree = _cache.get(source)
    if tree is None:
        tree = _Parser(source[1:]).formula()
        if len(_cache) >= _CACHE_SIZE:
            _cache.clear()
        _cache[source] = tree
    return tree


def forget():
    """Empty the cache: its trees are out of date after rows or columns moved."""
    _cache.clear()


class _Parser:
    """Recursive descent, one method per level of precedence."""

    def __init__(self, text):
        self.tokens = tokenize(text)
        self.index = 0

    @property
    def token(self):
        return self.tokens[self.index]

    def advance(self):
        token = self.token
        self.index += 1
        return token

    def at(self, *operators):
        return self.token.kind == "op" and self.token.value in operators

    def expect(self, operator):
        if not self.at(operator):
            found = self.token.value or "the end"
            raise FormulaError(f"expected '{operator}', found {found}", self.token.position)
        self.advance()

    def formula(self):
        tree = self.comparison()
        if self.token.kind != "end":
            raise FormulaError(f"unexpected '{self.token.value}'", self.token.position)
        return tree

    def comparison(self):
        return self.left_to_right(self.joined, _COMPARISONS)

    def joined(self):
        return self.left_to_right(self.sum, ("&",))

    def sum(self):
        return self.left_to_right(self.product, ("+", "-"))

    def product(self):
        return self.left_to_right(self.signed, ("*", "/"))

    def left_to_right(self, operand, operators):
        left = operand()
        while self.at(*operators):
            operator = self.advance().value
            left = nodes.Binary(operator, left, operand())
        return left

    def signed(self):
        if self.at("-", "+"):
            operator = self.advance().value
            return nodes.Unary(operator, self.signed())
        return self.power()

    def power(self):
        left = self.percent()
        while self.at("^"):
            self.advance()
            right = self.exponent()
            left = nodes.Binary("^", left, right)
        return left

    def exponent(self):
        if self.at("-", "+"):
            operator = self.advance().value
            return nodes.Unary(operator, self.exponent())
        return self.percent()

    def percent(self):
        node = self.atom()
        while self.at("%"):
            self.advance()
            node = nodes.Percent(node)
        return node

    def atom(self):
        token = self.token
        if token.kind in ("number", "text"):
            self.advance()
            return nodes.Literal(token.value)
        if token.kind == "error":
            self.advance()
            return nodes.ErrorLiteral(ErrorValue(token.value))
        if token.kind == "sheet":
            self.advance()
            self.expect("!")
            return self.reference(token.value)
        if token.kind == "word":
            return self.word()
        if self.at("("):
            self.advance()
            node = self.comparison()
            self.expect(")")
            return node
        raise FormulaError(f"expected a value, found {token.value or 'the end'}", token.position)

    def word(self):
        token = self.token
        following = self.tokens[self.index + 1]
        if following.kind == "op" and following.value == "(":
            return self.call()
        if following.kind == "op" and following.value == "!":
            self.advance()
            self.advance()
            return self.reference(token.value)
        if token.value.upper() in ("TRUE", "FALSE"):
            self.advance()
            return nodes.Literal(token.value.upper() == "TRUE")
        try:
            CellRef.parse(token.value)
        except AddressError:
            self.advance()
            return self.name(token)
        return self.reference(None)

    def name(self, token):
        if "$" in token.value:
            raise FormulaError(f"'{token.value}' is not a cell", token.position)
        return nodes.NameNode(token.value)

    def call(self):
        name = self.advance().value.upper()
        self.expect("(")
        arguments = []
        if not self.at(")"):
            arguments.append(self.comparison())
            while self.at(","):
                self.advance()
                arguments.append(self.comparison())
        self.expect(")")
        return nodes.Call(name, arguments)

    def reference(self, sheet):
        start = self.corner(sheet)
        if not self.at(":"):
            return nodes.CellNode(start)
        self.advance()
        return nodes.RangeNode(RangeRef(start, self.corner(sheet)))

    def corner(self, sheet):
        token = self.advance()
        if token.kind != "word":
            raise FormulaError("expected a cell", token.position)
        try:
            return CellRef.parse(token.value, sheet)
        except AddressError as error:
            raise FormulaError(str(error), token.position) from None
