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
# "*": of an import; __getattr__: a module may make up its names.
MAY_DEFINE = ENTRIES | DYNAMIC | {"*", "__getattr__"}


def may_define_entry(tree):
    """One pass without recursion: a source may be nested as deep and be as long as it likes.

    Only a name that is bound nowhere is missing for certain. Where it is bound (a function may
    declare it global) is for the import to find out.
    """
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names = (node.name,)
        elif isinstance(node, ast.alias):
            names = (node.asname or node.name.partition(".")[0],)
        elif isinstance(node, ast.Name):
            names = (node.id,) if isinstance(node.ctx, ast.Store) or node.id in DYNAMIC else ()
        elif isinstance(node, ast.Attribute):
            names = (node.attr,) if node.attr in DYNAMIC else ()
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            names = (node.name,)
        elif isinstance(node, ast.MatchMapping):
            names = (node.rest,)
        else:
            continue
        if not MAY_DEFINE.isdisjoint(names):
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
