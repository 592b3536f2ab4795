"""Hostile chat templates: no way out of the sandbox, no hang, no flood; one line each."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.core.errors import UserInputError
from headwater.text.template import ChatTemplate

USER = [{"role": "user", "content": "hi"}]

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__ }}",
    "{{ (messages | first).__init__.__globals__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ strftime_now.__globals__['datetime'] }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ range.__class__.__base__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ '{0.__class__}'.format(messages) }}",
    "{{ '{0.__class__.__mro__}'.format_map({'0': 1}) }}",
    "{{ ('{0.__cla' ~ 'ss__}').format(1) }}",
    "{{ '%s' | attr('format') }}",
    "{{ ''|attr('__class__') }}",
    "{{ messages | map(attribute='__class__') | list | string }}",
    "{% set x = 'a'.format %}{{ x.__self__.__class__ }}",
    "{{ [].append.__self__.__class__ }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'role': 'x'}) }}",
    "{{ messages[0].clear() }}",
    "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
    "{% macro m() %}{% endmacro %}{{ m._func }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ joiner.__init__.__globals__ }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends '/etc/passwd' %}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ config }}{{ request.application.__globals__ }}",
    "{{ dict.mro() }}",
    "{{ dict.fromkeys.__self__.__subclasses__() }}",
    "{{ (namespace()).__class__ }}",
    "{{ namespace(a=1)._Namespace__attrs }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns.__class__ }}",
]

BOMBS = {
    "nested loops": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "nested loops with text": "{% for a in range(9000) %}{% for b in range(9000) %}" + "x" * 5000 + "{% endfor %}{% endfor %}",
    "text in one loop": "{% for a in range(90000) %}" + "x" * 100_000 + "{% endfor %}",
    "text in a set block": "{% set v %}{% for a in range(90000) %}" + "x" * 100_000 + "{% endfor %}{% endset %}",
    "huge range": "{% for a in range(10**12) %}{% endfor %}",
    "doubling by tilde": "{% set ns = namespace(x='aaaa') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}",
    "doubling by plus": "{% set ns = namespace(x='aaaa') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | length }}",
    "doubling lists": "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "laughing list": "{% set ns = namespace(x=['ha']) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "laughing tuple": "{% set ns = namespace(x=('ha',)) %}{% for a in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ ns.x | string }}",
    "laughing dict": (
        "{% set ns = namespace(x={'a': 1}) %}{% for a in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}"
    ),
    "laughing dict call": "{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x | tojson }}",
    "laughing namespaces": "{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = namespace(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x }}",
    "laughing comparison": (
        "{% set n = namespace(x=[1], y=[1]) %}{% for a in range(60) %}"
        "{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}"
    ),
    "repetition": "{{ 'a' * 10**12 }}",
    "repetition reversed": "{{ 10**12 * [1] }}",
    "repetition by steps": "{% set ns = namespace(x='a') %}{% for a in range(9) %}{% set ns.x = ns.x * 100000 %}{% endfor %}",
    "power": "{{ 9**9**9 }}",
    "growing number": "{% set ns = namespace(x=99) %}{% for a in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "padding": "{{ 'a'.center(10**10) }}",
    "zero fill": "{{ 'a'.zfill(10**10) }}",
    "percent width": "{{ '%1000000000d' % 1 }}",
    "percent star": "{{ '%*d' % (1000000000, 1) }}",
    "percent filter": "{{ '%1000000000d' | format(1) }}",
    "format width": "{{ '{:>1000000000}'.format(1) }}",
    "format nested width": "{{ '{:>{}}'.format(1, 1000000000) }}",
    "format precision": "{{ '{:.1000000000f}'.format(1.0) }}",
    "indent": "{{ 'a\n\n\n' | indent(10**9, blank=true) }}",
    "replace": "{% set ns = namespace(x='a' * 100000) %}{{ ns.x.replace('a', ns.x) }}",
    "replace filter": "{% set ns = namespace(x='a' * 100000) %}{{ ns.x | replace('a', ns.x) }}",
    "join": "{{ range(90000) | join('a' * 100000) }}",
    "join method": "{{ ('a' * 100000).join('b' * 100000) }}",
    "json indent": "{{ [[[[1]]]] | tojson(indent=1000000000) }}",
    "sum of lists": "{{ [[1] * 100000] * 100 | sum(start=[]) }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "wide recursion": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "recursive loop": "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "macro text": "{% macro m() %}" + "x" * 100_000 + "{% endmacro %}{% for a in range(90000) %}{{ m() }}{% endfor %}",
    "slices": "{% for a in range(90000) %}{{ (range(90000) | list)[a:] | length }}{% endfor %}",
    "slices of text": "{% set t = 'a' * 200000 %}{% for a in range(90000) %}{% set u = t[a % 7:] %}{% endfor %}",
    "sorting": "{% for a in range(90000) %}{{ range(90000) | sort | first }}{% endfor %}",
    "searching": "{% set t = 'a' * 200000 %}{% for a in range(90000) %}{% if t ~ 'b' in t %}{% endif %}{{ t.find('ab') }}{% endfor %}",
    "comparing": "{% set t = 'a' * 200000 %}{% for a in range(90000) %}{% if (t ~ 'b') == (t ~ 'c') %}{% endif %}{% endfor %}",
    "comparing lists": "{% set t = [1] * 100000 %}{% set u = [1] * 100000 %}{% for a in range(90000) %}{% if t == u %}{% endif %}{% endfor %}",
    "splitting": "{% set t = 'a ' * 90000 %}{% for a in range(90000) %}{{ t.split() | length }}{% endfor %}",
    "upper": "{% set t = 'a' * 200000 %}{% for a in range(90000) %}{% set u = t | upper | trim %}{% endfor %}",
    "strftime": "{{ strftime_now('%Y' * 100000) }}",
}


@pytest.mark.parametrize("source", ESCAPES)
def test_known_ways_out_of_the_sandbox_are_closed(source):
    try:
        text = ChatTemplate(source).render([{"role": "user", "content": "hi"}])
    except UserInputError as e:
        text = str(e)
        assert "\n" not in text
    for leak in ("<class", "<module", "<function", "subclasses", "root:", "uid=", "builtins", "/usr/"):
        assert leak not in text


def test_messages_are_not_changed_by_a_template():
    messages = [{"role": "user", "content": "hi"}]
    ChatTemplate("{% set m = messages %}{{ m[0].content }}").render(messages)
    assert messages == [{"role": "user", "content": "hi"}]


def run_bombs() -> None:
    """All bombs one after the other; for a child process under a memory and a time limit."""
    for name, source in BOMBS.items():
        try:
            text = ChatTemplate(source).render(USER)
            assert len(text) < 100, name
            print(f"{name}: harmless")
        except UserInputError as e:
            assert "\n" not in str(e) and len(str(e)) < 500, name
            print(f"{name}: {e}")


def test_no_template_hangs_or_floods():
    code = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}; import test_hostile_templates as t; t.run_bombs()"

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500, check=False, preexec_fn=limits)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == len(BOMBS)
