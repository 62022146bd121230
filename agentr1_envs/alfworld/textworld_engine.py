"""The real engine behind ALFWorld (TextWorld and Fast Downward), made usable in numbers.

What is said and decided is TextWorld's own: its grammar symbols, its state with its query rules,
its planner library. Only the work that comes out the same every time is kept: parses of the
grammar, the translation of PDDL to SAS (done twice per load and twice per reset otherwise), and the
command of each planner operator. The unmodified engine needs about 400 ms a reset and 46 ms a step.

Needs the extra ``alfworld``. Differences in behaviour to ``textworld.envs.PddlEnv``, none of them
in the text:

* ``sys.argv`` and ``sys.stdout`` are left alone (the translator's output is dropped at its source);
* any number of instances may live in one process, each used by one thread at a time: the parsers
  and the translator, which keep state in modules, run under one lock;
* the planner's library is copied to disk and loaded once for each *concurrent* instance, and goes
  back to a pool when the instance is closed or collected.
"""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import types
import weakref
from collections import Counter, OrderedDict, defaultdict
from copy import copy
from typing import Any

from agentr1_envs.alfworld.engine import NOTHING
from agentr1_envs.alfworld.game import UnreachableGoal
from agentr1_envs.alfworld.grammar import GOAL_PLACEHOLDER, TASK_RULE
from agentr1_envs.errors import EnvironmentFault

_LOCK = threading.RLock()
_POOL: list[Any] = []  # planner libraries without an engine
_TRANSLATIONS: OrderedDict[tuple[str, str], tuple[Any, str]] = OrderedDict()
_SYMBOLS: dict[str, list[Any]] = {}
_RULES: dict[str, Any] = {}
_LOGICS: OrderedDict[tuple[str, str], Any] = OrderedDict()
_COMMANDS: OrderedDict[tuple[str, ...], dict[str, str]] = OrderedDict()
KEPT_GAMES = 64
INSTALL_HINT = (
    'the real ALFWorld engine needs: pip install "agentr1[alfworld]" (Linux, Python 3.11 or 3.12, '
    "gcc, g++, make and an executable named python; it takes some minutes to build)"
)


def _import_engine() -> None:
    """Import TextWorld and the translator without letting either touch ``sys.argv``."""
    name = "fast_downward.translate.options"
    if name not in sys.modules:
        # The translator's module of options parses sys.argv when it is imported. These are the
        # defaults that it would have set; those that matter are set for each call below.
        options = types.ModuleType(name)
        options.__dict__.update(
            domain="domain",
            task="task",
            generate_relaxed_task=False,
            sas_file="output.sas",
            invariant_generation_max_time=300,
            reorder_variables=True,
            dump_task=False,
            layer_strategy="min",
        )
        sys.modules[name] = options
    try:
        import fast_downward.translate.translate  # noqa: F401
        import textworld.envs.pddl  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{INSTALL_HINT} ({error})") from error
    for key, module in list(sys.modules.items()):
        if key.startswith("fast_downward.translate"):
            # The translator reports its progress with print(); the name is shadowed in its modules.
            module.__dict__.setdefault("print", _quiet)


def _quiet(*values: Any, file: Any = None, **options: Any) -> None:
    """Stands in for print() in the translator's modules: only what goes to a file is written."""
    if file is not None:
        print(*values, file=file, **options)


def _translate(domain: str, problem: str) -> tuple[Any, str]:
    """The planning task and its SAS text; as ``fast_downward.pddl2sas`` gives them.

    The second, optimised translation that TextWorld makes is for its planner's search, which is
    never called here.
    """
    key = (domain, problem)
    with _LOCK:
        if key in _TRANSLATIONS:
            _TRANSLATIONS.move_to_end(key)
            return _TRANSLATIONS[key]
        _import_engine()
        from fast_downward.translate import normalize, options, translate
        from fast_downward.translate.pddl_parser import lisp_parser, parsing_functions

        options.filter_unimportant_vars = False
        options.filter_unreachable_facts = False
        options.use_partial_encoding = False
        options.add_implied_preconditions = False
        options.invariant_generation_max_candidates = 0
        task = parsing_functions.parse_task(
            lisp_parser.parse_nested_list(domain.split("\n")),
            lisp_parser.parse_nested_list(problem.split("\n")),
        )
        normalize.normalize(task)
        text = io.StringIO()
        translate.pddl_to_sas(task).output(text)
        _TRANSLATIONS[key] = (task, text.getvalue())
        while len(_TRANSLATIONS) > KEPT_GAMES:
            _TRANSLATIONS.popitem(last=False)
        return _TRANSLATIONS[key]


def _symbols(text: str) -> list[Any]:
    """The symbols of a grammar text; shared, never written to."""
    from textworld.envs.pddl import textgen

    with _LOCK:
        if text not in _SYMBOLS:
            if len(_SYMBOLS) > 4096:
                _SYMBOLS.clear()
            _SYMBOLS[text] = textgen._parse_and_convert(text, rule_name="symbols")
        return _SYMBOLS[text]


def _rule(query: str) -> Any:
    """The rule of a conjunctive query."""
    from textworld.logic import Rule

    with _LOCK:
        if query not in _RULES:
            if len(_RULES) > 4096:
                _RULES.clear()
            _RULES[query] = Rule.parse_conjunctive_query(query)
        return _RULES[query]


class _Derivation:
    """TextWorld's derivation of a text, with the parses of queries kept."""

    def __init__(self, grammar: Any, state: Any, infos: dict[str, Any]) -> None:
        from textworld.envs.pddl import textgen

        self.textgen, self.grammar, self.state, self.infos = textgen, grammar, state, infos

    def text(self, start: str, mapping: dict[Any, Any]) -> str:
        kind = self.textgen
        stack = [(symbol, mapping) for symbol in reversed(_symbols(start))]
        out: list[str] = []
        while stack:
            symbol, bound = stack.pop()
            if isinstance(symbol, kind.TerminalSymbol):
                out.append(str(symbol))
            elif isinstance(symbol, kind.NonterminalSymbol):
                stack += reversed([(s, bound) for s in self._replace(symbol, bound)])
            elif isinstance(symbol, kind.EvalSymbol):
                variables = {ph.name: self.infos[var.name] for ph, var in bound.items()}
                out.append(str(eval(symbol.expression, dict(variables))))
            elif isinstance(symbol, kind.ListSymbol):
                stack += reversed(self._listed(symbol.symbol, bound))
            elif isinstance(symbol, kind.ConditionalSymbol):
                stack += reversed(self._conditional(symbol, bound))
            else:
                raise NotImplementedError(f"Unknown symbol: {type(symbol)}")
        return "".join(out)

    def _conditional(self, symbol: Any, bound: dict[Any, Any]) -> list[tuple[Any, Any]]:
        if not symbol.given:
            return [(symbol.expression, bound)]
        found = self.state.all_assignments(_rule(symbol.given), bound)
        return [(symbol.expression, {**bound, **mapping}) for mapping in found]

    def _listed(self, symbol: Any, bound: dict[Any, Any]) -> list[tuple[Any, Any]]:
        items = self._conditional(symbol, bound)
        shown = self.textgen.display_list(items, {})
        return [s if isinstance(s, tuple) else (s, bound) for s in shown]

    def _replace(self, symbol: Any, bound: dict[Any, Any]) -> list[Any]:
        rules = self.grammar._rules.get(str(symbol))
        if not rules:
            raise self.textgen.CSGUnknownSymbolError(symbol)
        for rule in rules:
            if not rule.condition:
                return rule.rhs
            if next(iter(self.state.all_assignments(_rule(rule.condition), bound)), None):
                return rule.rhs
        raise IndexError(f"no alternative of '#{symbol}#' applies")


def _logic(domain: str, grammar: str) -> Any:
    """The ``GameLogic`` of a game.

    Games of one release differ in the goal's sentence only, so the rest is parsed once and the
    rule ``task`` is put in.
    """
    found = TASK_RULE.search(grammar)
    if found is None or grammar.count('"task"') != 1:
        return _parsed_logic(domain, grammar)
    try:
        sentence = json.loads(f'"{found.group(2)}"')
    except ValueError:
        return _parsed_logic(domain, grammar)
    from textworld.envs.pddl.textgen import ContextSensitiveGrammar, ProductionRule

    bare = f"{grammar[: found.start(2)]}{GOAL_PLACEHOLDER}{grammar[found.end(2) :]}"
    shared = _parsed_logic(domain, bare)
    logic = copy(shared)  # the types are shared: the domain is the same
    logic.grammar = ContextSensitiveGrammar()
    logic.grammar._rules = dict(shared.grammar._rules)
    first, *others = shared.grammar._rules["task"]
    task = ProductionRule(first.lhs, _symbols(sentence), first.weight, first.condition)
    logic.grammar._rules["task"] = [task, *others]
    return logic


def _parsed_logic(domain: str, grammar: str) -> Any:
    with _LOCK:
        key = (domain, grammar)
        if key not in _LOGICS:
            from textworld.envs.pddl.logic import GameLogic

            _LOGICS[key] = GameLogic(domain=domain, grammar=grammar)
            while len(_LOGICS) > KEPT_GAMES:
                _LOGICS.popitem(last=False)
        _LOGICS.move_to_end(key)
        return _LOGICS[key]


def _make_state(library: Any, problem: str, logic: Any) -> Any:
    """What ``PddlState(library, problem, logic)`` makes, from a kept translation."""
    from textworld.envs.pddl.logic import Atom, PddlState
    from textworld.logic import Proposition, Type, Variable

    task, sas = _translate(logic.domain, problem)
    state = PddlState.__new__(PddlState)
    state._facts, state._vars_by_name = defaultdict(set), {}
    state._vars_by_type, state._var_counts = defaultdict(set), Counter()
    state._logic, state.downward_lib, state.pddl_problem = logic, library, problem
    state.task, state.sas = task, sas
    state._actions = {action.name: action for action in task.actions}
    with _LOCK:
        for kind in task.types:
            if kind.name not in logic.types._types:
                logic.types.add(Type(kind.name, kind.supertype_names))
    library.load_sas(sas.encode("utf-8"))
    state.name2type = types_of = {o.name: o.type_name for o in task.objects}
    for atom in task.init:
        if hasattr(atom, "predicate"):
            name, arguments = atom.predicate, atom.args
        else:  # a numeric fluent: kept only where its value is no whole number
            name, arguments = str(atom.expression.value), atom.fluent.args
            if atom.fluent.symbol == "total-cost" or name.isdigit():
                continue
        if name != "=":
            state.add_fact(Proposition(name, [Variable(arg, types_of[arg]) for arg in arguments]))
    atoms = (Atom * library.get_state_size())()
    library.get_state(atoms)
    for atom in atoms:
        fact = atom.get_fact(types_of)
        if not fact.is_negation:
            state.add_fact(fact)
    return state


def _take_library() -> Any:
    import fast_downward

    with _LOCK:
        return _POOL.pop() if _POOL else fast_downward.load_lib()


def _give_library(library: Any) -> None:
    with _LOCK:
        _POOL.append(library)


class TextworldEngine:
    """One playthrough in the real engine; the interface of ``StateEngine``.

    Args:
        pddl_problem, domain, grammar: the three texts of a game file.

    Raises:
        ImportError: the extra ``alfworld`` is not installed.
        UnreachableGoal: the planner's translator finds that the goal cannot be reached.
        EnvironmentFault: the engine cannot load the game.
    """

    def __init__(self, pddl_problem: str, domain: str, grammar: str) -> None:
        with _LOCK:
            _import_engine()
        from alfworld.agents.utils.misc import Demangler
        from textworld.generator.game import EntityInfo

        self._problem = pddl_problem
        library = _take_library()
        self._close = weakref.finalize(self, _give_library, library)
        self._library = library
        try:
            self._logic = _logic(domain, grammar)
            self._state = _make_state(library, pddl_problem, self._logic)
        except KeyError as error:
            self.close()
            if error.args == ("val1",):  # the translator's dummy task
                raise UnreachableGoal("the goal cannot be reached, says the planner") from error
            raise EnvironmentFault(f"the real engine cannot load the game: {error!r}") from error
        except Exception as error:
            self.close()
            raise EnvironmentFault(f"the real engine cannot load the game: {error!r}") from error
        except SystemExit as error:  # the translator's answer to PDDL that it cannot read
            self.close()
            raise EnvironmentFault("the real engine cannot read the game's PDDL") from error
        self._infos: dict[str, Any] = {}
        for fact in self._state.facts:
            for var in fact.arguments:
                if var.name not in self._infos:
                    info = EntityInfo(var.name, var.type)
                    info.definite, info.indefinite = "the", "a"
                    self._infos[var.name] = info
        names = Demangler(game_infos=self._infos)
        for info in self._infos.values():
            info.name = names.demangle_alfred_name(info.id)
        self._names = {name: info.name for name, info in self._infos.items()}
        self._fresh = True
        self._kept = _commands_of(domain, grammar, pddl_problem)
        self._constant: dict[str, bool] = {}
        self.moves = 0
        self._look_up()

    def close(self) -> None:
        """Give the planner's library back. The engine cannot be used afterwards."""
        self._close()

    def reset(self) -> str:
        """Start over; returns the introduction with the goal."""
        if not self._fresh:
            self._state = _make_state(self._library, self._problem, self._logic)
            self._look_up()
        self._fresh = True
        self.moves = 0
        return self._text("#intro#", {})

    def step(self, command: str) -> str:
        """Carry out a command; returns what the engine says."""
        command = command.strip()
        operator = self._valid.get(command)
        if operator is None:
            return NOTHING
        self._fresh = False
        self.moves += 1
        self._state.apply(types.SimpleNamespace(id=operator.id))
        name, mapping = operator.name.split()[0], self._mapping(operator.name)
        said = self._text(self._logic.actions[name].feedback_rule, mapping)
        self._look_up()
        return said

    def admissible(self) -> list[str]:
        """The commands that do something now, sorted."""
        return sorted(self._valid)

    @property
    def done(self) -> bool:
        return self.won

    @property
    def score(self) -> int:
        return int(self.won)

    def state_key(self) -> str:
        """Text that is equal for two moments of one game if and only if their facts are."""
        hidden = ("checked", "not_checked")
        facts = (f for f in self._state.facts if f.name not in hidden)
        return "\n".join(
            sorted(
                f"{f.name} {' '.join(v.name for v in f.arguments)}"
                for f in facts
                if not f.name.startswith(("new-axiom", "not_new-axiom"))
            )
        )

    # -- parts -------------------------------------------------------------------------------

    def _text(self, start: str, mapping: dict[Any, Any]) -> str:
        return _Derivation(self._logic.grammar, self._state, self._infos).text(start, mapping)

    def _mapping(self, operator: str) -> dict[Any, Any]:
        from textworld.logic import Placeholder, Variable

        name, *arguments = operator.split()
        return {
            Placeholder(p.name.strip("?"), p.type_name): Variable(argument, p.type_name)
            for p, argument in zip(self._state._actions[name].parameters, arguments, strict=False)
        }

    def _command(self, operator: str) -> str:
        name = operator.split()[0]
        template = self._logic.actions[name].template
        constant = self._constant.get(name)
        if constant is None:
            constant = self._constant[name] = self._is_constant(template)
        command = self._kept.get(operator) if constant else None
        if command is None:
            mapping = self._mapping(operator)
            command = self._text(template, mapping).format(
                **{ph.name: self._names[var.name] for ph, var in mapping.items()}
            )
            if constant:
                self._kept[operator] = command
        return command

    def _is_constant(self, template: str) -> bool:
        """Whether a command's text depends on nothing that commands change."""
        changed = {e.literal.predicate for a in self._state.task.actions for e in a.effects}
        asked = re.findall(r"(?:not_)?([\w-]+)\(", template)
        return "#" not in template and changed.isdisjoint(asked)

    def _look_up(self) -> None:
        """Ask the planner's library for what can be done and whether the goal holds."""
        import fast_downward

        library, state = self._library, self._state
        operators = (fast_downward.Operator * library.get_applicable_operators_count())()
        library.get_applicable_operators(operators)
        state._operators = {operator.id: operator for operator in operators}
        self._valid: dict[str, Any] = {}
        seen = set()
        for operator in operators:
            name = operator.name
            if name not in seen:
                seen.add(name)
                self._valid.setdefault(self._command(name), operator)
        self.won = bool(library.check_goal())


def grammar_with_goal(grammar: str, goal: str) -> str:
    """ALFWorld's own grammar with a goal's sentence put in, as ``add_task_to_grammar`` does."""
    return grammar.replace(GOAL_PLACEHOLDER, goal)


def _commands_of(*game: str) -> dict[str, str]:
    """The kept commands of a game: planner operator -> command."""
    with _LOCK:
        commands = _COMMANDS.setdefault(game, {})
        _COMMANDS.move_to_end(game)
        while len(_COMMANDS) > KEPT_GAMES:
            _COMMANDS.popitem(last=False)
        return commands
