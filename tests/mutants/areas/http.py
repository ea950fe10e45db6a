"""Requests: each is begun with once, or refused in time: triggers/http; and by whom: runtime/web."""

from mutant import Mutant

_PAGES = "tests/runtime/web/test_cross_origin.py"
_REQUESTS = "tests/triggers/http/test_requests.py"

MUTANTS = (
    Mutant(
        "quickest-first",
        "clients",
        "where clients hold too much, those have to go that send as fast as they can",
        "runtime/web/memory_budget.py",
        "sorted(self._usages, key=rate)",
        "sorted(self._usages, key=rate, reverse=True)",
        "tests/runtime/web/test_memory_budget.py::test_the_slowest_are_put_out_and_small_ones_until_a_quarter_is_free",
    ),
    Mutant(
        "answered-and-counted",
        "clients",
        "what was kept of a request stays counted after its answer, until nobody finds room",
        "runtime/web/memory_budget.py",
        "            self._budget.release(self._holder, self._costs.popleft())\n",
        "            self._costs.popleft()\n",
        "tests/runtime/web/test_request_memory.py::test_an_answer_gives_back_what_was_kept_of_its_request",
    ),
    Mutant(
        "no-origin",
        "requests",
        "with cors, a request that no page has made is refused for its missing origin",
        "triggers/http/cross_origin.py",
        "return self._settings.enabled and origin is not None and not self._allows(origin)",
        'return self._settings.enabled and not self._allows(origin or "")',
        "tests/triggers/http/test_cors.py::test_a_request_without_an_origin_is_nobodys_page",
    ),
    Mutant(
        "cut-and-whole",
        "requests",
        "an answer whose handler has failed amid it is taken for whole",
        "triggers/http/responses.py",
        "        if not self._is_whole:\n            raise CutOffError\n",
        "",
        f"{_REQUESTS}::test_an_answer_in_parts_is_whole_only_where_its_last_part_has_come",
    ),
    Mutant(
        "queues-without-end",
        "requests",
        "requests that no worker can take in time wait in any number",
        "triggers/http/requests.py",
        "return waiting >= most or self._body_bytes > MOST_WAITING_BYTES",
        "return self._body_bytes > MOST_WAITING_BYTES",
        f"{_REQUESTS}::test_of_those_that_come_while_as_many_wait_as_may_each_is_refused_at_once",
    ),
    Mutant(
        "waits-for-a-worker",
        "requests",
        "a request that finds no worker waits for one however long that takes",
        "triggers/http/requests.py",
        "        self._unbegun.add(lane)\n",
        "",
        f"{_REQUESTS}::test_who_finds_no_worker_in_time_is_refused_and_never_begun_with",
    ),
    Mutant(
        "begins-for-nobody",
        "requests",
        "a client that has gone is begun with",
        "triggers/http/requests.py",
        "                if answer.cancelled():\n                    self._stop_waiting(lane)\n",
        "",
        f"{_REQUESTS}::test_a_client_that_has_gone_is_not_begun_with",
    ),
    Mutant(
        "asks-again",
        "requests",
        "a request that was answered, as its worker has died, is handed out again",
        "triggers/http/requests.py",
        "if lane.answer.done() or lane.has_given_up or self._is_stopping:",
        "if lane.has_given_up or self._is_stopping:",
        f"{_REQUESTS}::test_what_its_worker_died_in_is_answered_and_not_handed_out_again",
    ),
    Mutant(
        "reads-are-harmless",
        "foreign pages",
        "a page of another site may open a WebSocket, which begins with a GET",
        "runtime/web/cross_origin.py",
        'is_own = origin is None or _is_own(origin, headers.get("Host", ""), names)',
        'is_own = method == "GET" or origin is None or _is_own(origin, headers.get("Host", ""), names)',
        f"{_PAGES}::test_a_page_of_another_site_is_refused",
    ),
    Mutant(
        "any-name",
        "foreign pages",
        "a server on loopback answers by a name that somebody else has pointed there",
        "runtime/web/cross_origin.py",
        "        if self._is_local:\n            return",
        "        if self._is_local and self.names:\n            return",
        f"{_PAGES}::test_a_server_answers_by_its_own_names",
    ),
)
