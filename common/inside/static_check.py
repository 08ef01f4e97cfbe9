"""Says whether a candidate's file can be a candidate at all, without running any of it.

    python -I -S static_check.py FILE

Exit status 0: it may be; 3: it is not Python; 4: it defines neither ModelNew nor Model. For 3 and 4
the reason is on standard output. Run in a sandbox: sources exist that crash or stall a parser.
Standard library only, to start fast.
"""

import ast
import sys

ENTRIES = {"ModelNew", "Model"}
NOT_PYTHON = 3
NO_ENTRY = 4
# With one of these a name can be bound in ways that only running the file would show.
DYNAMIC = {"exec", "globals", "locals", "vars", "setattr", "__dict__", "modules"}


def bound_names(statements):
    """Yields the names that module-level statements bind, "*" where they cannot be told."""
    for statement in statements:
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement.name
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                yield alias.asname or alias.name
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            for inner in getattr(statement, field, []):
                yield from bound_names([inner] if isinstance(inner, ast.stmt) else inner.body)


def may_define_entry(tree):
    names = set(bound_names(tree.body))
    if names & (ENTRIES | {"*"}):
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in DYNAMIC:
            return True
        if isinstance(node, ast.Attribute) and node.attr in DYNAMIC:
            return True
    return False


def main(path):
    try:
        with open(path, "rb") as file:
            source = file.read()
        tree = ast.parse(source, "candidate.py")
        compile(source, "candidate.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        print(f"{type(error).__name__}: {error}")
        return NOT_PYTHON
    if not may_define_entry(tree):
        print("defines neither ModelNew nor Model")
        return NO_ENTRY
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
