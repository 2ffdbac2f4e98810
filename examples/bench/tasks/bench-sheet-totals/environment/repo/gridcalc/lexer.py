"""Formula text to tokens."""

import re
from typing import NamedTuple

from gridcalc.errors import ALL_CODES, FormulaError


class Token(NamedTuple):
    """One piece of a formula: what it is, its text or value, and where it began."""

    kind: str
    value: object
    position: int


_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_.]*(?:\$[0-9]+)?")
_OPERATORS = ("<=", ">=", "<>", "+", "-", "*", "/", "^", "&", "=", "<", ">", "%", "(", ")", ",", ":", "!")


def tokenize(text):
    """All tokens of a formula (without its ``=``), an ``end`` token last."""
    tokens = []
    position = 0
    while position < len(text):
        char = text[position]
        if char.isspace():
            position += 1
            continue
        token, position = _next_token(text, position)
        tokens.append(token)
    tokens.append(Token("end", "", len(text)))
    return tokens


def _next_token(text, position):
    char = text[position]
    if char == '"':
        value, after = _quoted(text, position, '"', "a text without its closing quote")
        return Token("text", value, position), after
    if char == "'":
        value, after = _quoted(text, position, "'", "a sheet name without its closing quote")
        return Token("sheet", value, position), after
    if char == "#":
        return _error_literal(text, position)
    match = _NUMBER.match(text, position)
    if match:
        return Token("number", _number(match.group()), position), match.end()
    match = _WORD.match(text, position)
    if match:
        return Token("word", match.group(), position), match.end()
    for operator in _OPERATORS:
        if text.startswith(operator, position):
            return Token("op", operator, position), position + len(operator)
    raise FormulaError(f"unexpected '{char}'", position)


def _number(text):
    return float(text) if any(mark in text for mark in ".eE") else int(text)


def _quoted(text, position, quote, complaint):
    """A quoted piece in which a doubled quote stands for one."""
    value = []
    index = position + 1
    while index < len(text):
        if text[index] == quote:
            if text[index + 1 : index + 2] == quote:
                value.append(quote)
                index += 2
                continue
            return "".join(value), index + 1
        value.append(text[index])
        index += 1
    raise FormulaError(complaint, position)


def _error_literal(text, position):
    for code in ALL_CODES:
        if text.startswith(code, position):
            return Token("error", code, position), position + len(code)
    raise FormulaError("an unknown error value", position)
