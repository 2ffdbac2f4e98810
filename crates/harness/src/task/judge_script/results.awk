# Reads the report of a test runner and prints "passed NAME" or "failed NAME" for each test: JUnit XML, the JSON of
# jest and vitest, the JSON lines of Go and Rust, and TAP. Run it with LC_ALL=C. `dir` is the directory of the tests.
# With `by_name`, names have one spelling, with and without their group, and expected failures pass.

{ lines[NR] = $0 }

END {
  text = ""
  for (i = 1; i <= NR && text == ""; i++) {
    text = lines[i]
    sub(/^\357\273\277/, "", text)
    sub(/^[ \t\r]+/, "", text)
  }
  is_json = 0
  for (i = 1; i <= NR; i++) if (lines[i] ~ /^[ \t]*\{/) is_json = 1
  if (text ~ /^</) xml()
  else if (text ~ /^\{/ && has("\"testResults\"")) jest()
  else if (is_json && (has("\"Action\"") || has("\"event\""))) json_lines()
  else tap()
}

function has(word,  i) {
  for (i = 1; i <= NR; i++) if (index(lines[i], word)) return 1
  return 0
}

# Prints a result. A group that is a path below `dir` is relative to it.
function report(status, group, name) {
  group = below(group)
  name = below(name)
  gsub(/[\t\r\n]/, " ", group)
  gsub(/[\t\r\n]/, " ", name)
  if (by_name) spell(status, name)
  if (group != "") name = group "::" name
  if (by_name) spell(status, name); else print status " " name
}

# Prints the key of a name, and the key that printed lines have, which end at the first space of a parameter.
function spell(status, name) {
  name = trim(name)
  gsub(/\.py::/, ".", name)
  gsub(/::|\//, ".", name)
  print status " " name
  if (match(name, / /) && index(substr(name, 1, RSTART), "[")) print status " " substr(name, 1, RSTART - 1)
}

function below(path) {
  return index(path, dir "/") == 1 ? substr(path, length(dir) + 2) : path
}

function trim(word) {
  gsub(/^[ \t\r\n]+|[ \t\r\n]+$/, "", word)
  return word
}

# JUnit XML: tags are split at "<", which cannot occur in a value.
function xml(  all, i, count, tags, until, depth, name, inside, end) {
  all = ""
  for (i = 1; i <= NR; i++) all = all lines[i] "\n"
  count = split(all, tags, "<")
  for (i = 2; i <= count; i++) {
    if (until != "") {
      if (index(tags[i], until)) until = ""
      continue
    }
    if (index(tags[i], "![CDATA[") == 1) { if (!index(tags[i], "]]>")) until = "]]>"; continue }
    if (index(tags[i], "!--") == 1) { if (!index(tags[i], "-->")) until = "-->"; continue }
    if (match(tags[i], /^\/?[A-Za-z_:][A-Za-z0-9_:.-]*/) == 0) continue
    name = substr(tags[i], 1, RLENGTH)
    end = attributes(substr(tags[i], RLENGTH + 1))
    if (name == "testsuite" || name == "testsuites") {
      if (end != "/") suites[++depth] = attribute["name"]
    } else if (name == "/testsuite" || name == "/testsuites") {
      depth--
    } else if (name == "testcase") {
      open_case(depth)
      if (end == "/") close_case(); else inside = 1
    } else if (name == "/testcase") {
      close_case()
      inside = 0
    } else if (inside && (name == "skipped" || name == "error" || name == "failure")) {
      if (!by_name || attribute["type"] != "pytest.xfail") case_status = "failed"
    }
  }
}

function open_case(depth,  i, class, word) {
  case_name = trim(attribute["name"])
  class = trim(attribute["classname"])
  case_group = class
  if (class == "" || class == case_name || class == "test") {
    case_group = ""
    for (i = 2; i <= depth; i++) case_group = case_group (i > 2 ? " > " : "") suites[i]
    if (case_group == case_name) case_group = ""
  }
  word = tolower(attribute["status"] " " attribute["result"])
  case_status = word ~ /notrun|disabled|skipped|suppressed|ignored/ ? "failed" : "passed"
}

function close_case() {
  report(case_status, case_group, case_name)
}

# Reads the attributes of a tag. Returns "/" for a tag that ends itself.
function attributes(rest,  key, quote, at) {
  split("", attribute)
  while (match(rest, /^[ \t\r\n]*[A-Za-z_:][A-Za-z0-9_:.-]*[ \t\r\n]*=[ \t\r\n]*/)) {
    key = substr(rest, 1, RLENGTH)
    rest = substr(rest, RLENGTH + 1)
    sub(/=.*$/, "", key)
    quote = substr(rest, 1, 1)
    rest = substr(rest, 2)
    at = index(rest, quote)
    if ((quote != "\"" && quote != "'") || at == 0) break
    attribute[trim(key)] = unescaped(substr(rest, 1, at - 1))
    rest = substr(rest, at + 1)
  }
  return substr(trim(rest), 1, 1)
}

function unescaped(word,  parts, count, i, at, entity, out) {
  count = split(word, parts, "&")
  out = parts[1]
  for (i = 2; i <= count; i++) {
    at = index(parts[i], ";")
    entity = substr(parts[i], 1, at - 1)
    if (entity == "lt") entity = "<"
    else if (entity == "gt") entity = ">"
    else if (entity == "amp") entity = "&"
    else if (entity == "quot") entity = "\""
    else if (entity == "apos") entity = "'"
    else if (entity ~ /^#[xX][0-9A-Fa-f]+$/) entity = utf8(number(substr(entity, 3)))
    else if (entity ~ /^#[0-9]+$/) entity = utf8(substr(entity, 2) + 0)
    else { entity = "&"; at = 0 }
    out = out entity substr(parts[i], at + 1)
  }
  return out
}

function number(digits,  i, value) {
  digits = tolower(digits)
  for (i = 1; i <= length(digits); i++)
    value = value * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
  return value
}

function utf8(code) {
  if (code < 128) return sprintf("%c", code)
  if (code < 2048) return sprintf("%c%c", 192 + int(code / 64), 128 + code % 64)
  if (code < 65536)
    return sprintf("%c%c%c", 224 + int(code / 4096), 128 + int(code / 64) % 64, 128 + code % 64)
  return sprintf("%c%c%c%c", 240 + int(code / 262144), 128 + int(code / 4096) % 64,
                 128 + int(code / 64) % 64, 128 + code % 64)
}

# JSON: text is split at quotes, so that strings and the structure between them alternate.
function json(all,  parts, count, i, word, is_string, held, backslashes) {
  depth = 0
  pending = 0
  count = split(all, parts, "\"")
  is_string = 0
  for (i = 1; i <= count; i++) {
    if (!is_string) {
      structure(parts[i])
      is_string = 1
      held = ""
      continue
    }
    held = held parts[i]
    match(parts[i], /\\*$/)
    backslashes = RLENGTH
    if (backslashes % 2 == 1) { held = held "\""; continue }
    string = decoded(held)
    pending = 1
    is_string = 0
  }
}

# Reads what is between two strings. `string` is the one before, a key if a colon follows.
function structure(between,  i, letter) {
  if (pending) {
    pending = 0
    sub(/^[ \t\r\n]+/, "", between)
    if (substr(between, 1, 1) == ":") key[depth] = string
    else value(string)
  }
  if (between !~ /[][{}]/) return
  for (i = 1; i <= length(between); i++) {
    letter = substr(between, i, 1)
    if (letter == "{" || letter == "[") {
      depth++
      kind[depth] = letter
      key[depth] = ""
      opened()
    } else if (letter == "}" || letter == "]") {
      closed()
      depth--
    }
  }
}

# The path of the current value: the keys of the objects around it.
function place(  i, path) {
  for (i = 1; i <= depth; i++) if (kind[i] == "{") path = path "." key[i]
  return path
}

function decoded(word,  parts, count, i, out, code, low, letter) {
  if (index(word, "\\") == 0) return word
  gsub(/\\\\/, "\\u005c", word)
  count = split(word, parts, "\\")
  out = parts[1]
  for (i = 2; i <= count; i++) {
    letter = substr(parts[i], 1, 1)
    if (letter == "u") {
      code = number(substr(parts[i], 2, 4))
      if (code >= 55296 && code < 56320 && length(parts[i]) == 5 && substr(parts[i + 1], 1, 1) == "u") {
        low = number(substr(parts[i + 1], 2, 4))
        code = 65536 + (code - 55296) * 1024 + low - 56320
        i++
      }
      out = out utf8(code) substr(parts[i], 6)
    } else if (letter ~ /[nrtbf]/) {
      out = out " " substr(parts[i], 2)
    } else {
      out = out parts[i]
    }
  }
  return out
}

function jest(  i, all) {
  mode = "jest"
  all = ""
  for (i = 1; i <= NR; i++) all = all lines[i] "\n"
  json(all)
}

function json_lines(  i) {
  mode = "lines"
  for (i = 1; i <= NR; i++) if (lines[i] ~ /^[ \t]*\{/) json(lines[i])
}

function opened(  at) {
  if (mode == "lines" && depth == 1) split("", event)
  if (mode != "jest" || kind[depth] != "{") return
  at = place()
  if (at == ".testResults.") { tests = 0; file = "" }
  if (at == ".testResults.assertionResults.") { path = ""; title = ""; state = "" }
}

function value(word,  at) {
  at = place()
  if (mode == "lines") {
    if (depth == 1) event[key[1]] = word
  } else if (at == ".testResults.name") {
    file = word
  } else if (at == ".testResults.assertionResults.ancestorTitles") {
    path = path word " > "
  } else if (at == ".testResults.assertionResults.title") {
    title = word
  } else if (at == ".testResults.assertionResults.status") {
    state = word
  }
}

function closed(  at, i) {
  if (mode == "lines") {
    if (depth == 1) ended()
    return
  }
  if (kind[depth] != "{") return
  key[depth] = ""
  at = place()
  if (at == ".testResults.assertionResults.") {
    tests++
    names[tests] = path title
    states[tests] = state == "passed" ? "passed" : "failed"
  } else if (at == ".testResults.") {
    for (i = 1; i <= tests; i++) report(states[i], file, names[i])
  }
}

# One event of Go or of Rust.
function ended(  name, group) {
  if ("Action" in event) {
    if (event["Test"] == "") return
    if (event["Action"] == "pass") report("passed", event["Package"], event["Test"])
    if (event["Action"] == "fail" || event["Action"] == "skip")
      report("failed", event["Package"], event["Test"])
  } else if (event["type"] == "test" && event["event"] !~ /^(started|timeout)$/) {
    name = event["name"]
    sub(/#[0-9]+$/, "", name)
    group = ""
    if (index(name, "$")) {
      group = substr(name, 1, index(name, "$") - 1)
      name = substr(name, index(name, "$") + 1)
    }
    report(event["event"] == "ok" ? "passed" : "failed", group, name)
  }
}

# TAP: the points of subtests are indented by four spaces and come before their group.
function tap(  i, line, indent, level, block, status, name, at, n, deepest, under, inner) {
  deepest = 0
  for (i = 1; i <= NR; i++) {
    line = lines[i]
    sub(/\r$/, "", line)
    match(line, /^ */)
    indent = RLENGTH
    line = substr(line, indent + 1)
    if (block != "") {
      if (line == "..." && indent == block) block = ""
      continue
    }
    if (line == "---") { block = indent; continue }
    if (indent % 4 != 0 || line !~ /^(not ok|ok)([ \t]|$)/) continue
    status = line ~ /^ok/ ? "passed" : "failed"
    name = line
    sub(/^(not ok|ok)[ \t]*[0-9]*/, "", name)
    at = match(name, /(^|[^\\])#[ \t]*([Ss][Kk][Ii][Pp]|[Tt][Oo][Dd][Oo])/)
    if (at > 0) {
      status = "failed"
      name = substr(name, 1, at + (substr(name, at, 1) == "#" ? -1 : 0))
    }
    name = trim(name)
    sub(/^-+/, "", name)
    name = trim(name)
    gsub(/\\#/, "#", name)
    level = indent / 4
    inner = 0
    for (n = level + 1; n <= deepest; n++) {
      for (under = 1; under <= points[n]; under++) {
        points[level]++
        found[level, points[level]] = name " > " found[n, under]
        result[level, points[level]] = at > 0 ? "failed" : result[n, under]
        inner++
      }
      points[n] = 0
    }
    if (inner == 0 || status == "failed") {
      points[level]++
      found[level, points[level]] = name
      result[level, points[level]] = status
    }
    if (level > deepest) deepest = level
  }
  for (i = 1; i <= points[0]; i++) report(result[0, i], "", found[0, i])
}
