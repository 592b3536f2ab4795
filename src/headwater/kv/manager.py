"""KV manager: match a prompt, start a row, reserve and publish blocks, keep checkpoints, release. The only writer of kv state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from headwater.core.executor import Caps
from headwater.core.kvspec import BLOCK_TOKENS
from headwater.kv.blocks import Nodes, Pool
from headwater.kv.chain import Chain, Match, Start
from headwater.kv.evict import evict
from headwater.kv.points import Point, Points
from headwater.kv.prefix import PrefixIndex, common_prefix, mix
from headwater.policies.evict.api import EvictPolicy

Source = tuple[Chain, np.ndarray]                                  # a running row: its chain and its tokens whose state is valid


class KVManager:
    """All cache state of one executor.

    `wanted`: gives node arrays that the next waiting requests would read, asked for only when the policy uses it. `denies`: fault injection,
    asked before each reservation; True lets it fail.
    """

    def __init__(self, caps: Caps, policy: EvictPolicy, producer: str = "exact", block: int = BLOCK_TOKENS) -> None:
        spec = caps.spec
        self.caps, self.policy, self.block, self.producer = caps, policy, block, producer
        self.full = [g for g, group in enumerate(spec.groups) if group.kind == "full"]
        self.windowed = [g for g, group in enumerate(spec.groups) if group.kind == "window"]
        self.spans = [spec.groups[g].window for g in self.windowed]
        self.can_cut = spec.can_cut
        self.stateful = bool(spec.states)
        self.wanted: Callable[[], Iterable[np.ndarray]] = tuple
        self.denies: Callable[[], bool] | None = None
        self.copies = np.zeros(len(spec.groups), np.int64)
        self.evicted = 0
        self.points_made = 0
        self.pins: list[np.ndarray] = []
        self.pinned_points: list[Point] = []
        self.reset(())

    def reset(self, quarantine: Iterable[tuple[int, np.ndarray]]) -> None:
        """Forget everything (the worker is new, or an invariant broke); quarantine: (cache group, block ids) that are not used again."""
        totals = [self.caps.blocks[g] for g in self.full]
        n_nodes = min(totals) if totals else self._index_only_nodes()
        self.nodes = Nodes(n_nodes, self.block, totals)
        self.pools = [Pool(self.caps.blocks[g]) for g in self.windowed]
        self.slots = Pool(self.caps.slots if self.stateful else 0)
        self.index = PrefixIndex(self.nodes)
        self.points = Points(self.pools, self.slots)
        self.pins, self.pinned_points = [], []
        for group, ids in quarantine:
            pool = self.nodes.pools[self.full.index(group)] if group in self.full else self.pools[self.windowed.index(group)]
            pool.quarantine(ids)

    def _index_only_nodes(self) -> int:
        """Nodes without full blocks only index tokens; bounded by what rows and checkpoints can refer to."""
        return (self.caps.context // self.block + 1) * max(min(self.caps.slots or 64, 256), 4)

    # ---- sizes ------------------------------------------------------------------------------------------------------------------

    @property
    def longest(self) -> int:
        """Most tokens that one row can have in an otherwise empty memory."""
        tokens = [p.total - p.quarantined for p in self.nodes.pools] or [self.nodes.total]
        limit = min(tokens) * self.block
        for pool, span in zip(self.pools, self.spans, strict=True):
            if (pool.total - pool.quarantined) * self.block < span + 2 * self.block:
                limit = min(limit, (pool.total - pool.quarantined) * self.block)
        return limit

    @property
    def room(self) -> int:
        """Blocks that rows could still get: free ones and cached ones."""
        return self.nodes.n_free + self.nodes.n_cached

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block)

    def identity(self, salt: str) -> str:
        """Full identity of exact states: numeric options, producer, salt (tenant)."""
        return f"{self.caps.identity}\x1f{self.producer}\x1f{salt}"

    # ---- match ------------------------------------------------------------------------------------------------------------------

    def keys(self, identity: str, ids: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Hash sums (uint64) and keys of the full blocks of a whole prompt, for `start` and `match`."""
        sums = self.index.sums(self.index.seed(identity), 0, ids)
        return sums, mix(sums).tolist()

    def match(self, identity: str, ids: np.ndarray, keys: list[int], cap: int, source: Source | None = None) -> Match:
        """What is known of ids[:cap]. source: a running row whose unpublished block may hold more of it."""
        root = self.index.root(identity)
        block = self.block
        path = self.index.find(root, ids, keys[: cap // block])
        at = len(path) * block
        tail, extra = self.index.partial(int(path[-1]) if len(path) else root, ids[at : min(cap, at + block)])
        loose: list[Point] = []
        if source is not None and source[0].root == root and source[0].n > len(path):
            chain, tokens = source
            shared = common_prefix(ids[: min(cap, at + block)], tokens)
            loose = [p for p in chain.loose if p.pos <= shared and p in self.points.all]
            if shared - at > extra:
                tail, extra = int(chain.nodes[len(path)]), shared - at
        found = Match(identity, root, path, tail if extra else -1, at + extra, at + extra)
        if not self.can_cut:
            found.point = self._best_point(found, loose)
            found.start = found.point.pos if found.point else 0
        return found

    def _best_point(self, found: Match, loose: list[Point]) -> Point | None:
        """The latest checkpoint on the path; loose: those of a running row inside its unpublished block."""
        best = max(loose, key=lambda p: p.pos, default=None)
        limit = found.length
        nodes = found.path if found.tail < 0 else np.append(found.path, np.int32(found.tail))
        for node in nodes[np.flatnonzero(self.nodes.point[nodes])[::-1]].tolist():
            point = self.points.at(node, limit)
            if point is not None and (best is None or point.pos > best.pos):
                return point
            if best is not None:
                break
        return best

    # ---- a row begins -----------------------------------------------------------------------------------------------------------

    def start(self, found: Match, sums_seed: int, end: int, now: float) -> Start | None:
        """Make the chain of a new row that will compute up to position `end` in this step; None when blocks or slots are short (nothing changed).
        Where only window blocks are short the chain reaches less far (at least one token).

        sums_seed: hash sum before block found.start // block. Sources of copies and the checkpoint stay pinned until `unpin`.
        """
        block, start = self.block, found.start
        m = start // block
        path = found.path[:m]
        cover = (int(found.path[m]) if m < len(found.path) else found.tail) if start % block else -1
        held = np.append(path, np.int32(cover)) if cover >= 0 else path
        self.nodes.ref(held, now)
        if found.point is not None:
            found.point.pins += 1
        k = self.blocks_for(end) - m
        slot = self._take_slot(now)
        got = 0 if slot is None or k > self.room else self._make_room(k, now)  # never evict for a start that cannot succeed
        if slot is None or got < (1 if self.pools else k):
            self.nodes.unref(held, now)
            if found.point is not None:
                found.point.pins -= 1
            if slot is not None and slot >= 0:
                self.slots.give(np.array([slot], np.int32))
            return None
        self.nodes.hits[held] += 1
        chain = Chain(found.identity, found.root, int(path[-1]) if m else found.root, sums_seed, m, np.full(m + k + 4, -1, np.int32), m,
                      [np.full(m + k + 4, -1, np.int32) for _ in self.pools], [m] * len(self.pools), slot)
        chain.nodes[:m] = path
        self.index.pin_root(found.root, 1)
        self._share_windows(chain, found.point, m)
        self._extend(chain, got, now)
        copies = self._copies(chain, cover, found.point, m) if start % block else []
        if cover >= 0:
            self.pins.append(held[-1:])
        if found.point is not None:
            found.point.hits += 1
            found.point.last_use = now
            self.pinned_points.append(found.point)
        return Start(chain, copies, found.point.slot if found.point else -1)

    def _share_windows(self, chain: Chain, point: Point | None, m: int) -> None:
        if point is None:
            return
        for w, (first, ids) in enumerate(point.windows):
            whole = ids[: max(m - first, 0)]                        # the block of a position inside it is copied, not shared
            self.pools[w].share(whole)
            chain.windows[w][first : first + len(whole)] = whole
            chain.first[w] = min(first, m)

    def _copies(self, chain: Chain, cover: int, point: Point | None, m: int) -> list[tuple[int, int, int]]:
        mine = int(chain.nodes[m])
        copies = [(g, int(self.nodes.blocks[i, cover]), int(self.nodes.blocks[i, mine])) for i, g in enumerate(self.full)]
        if point is not None:
            copies += [(g, int(point.windows[w][1][-1]), int(chain.windows[w][m])) for w, g in enumerate(self.windowed)]
        for group, _, _ in copies:
            self.copies[group] += 1
        return copies

    def unpin(self, now: float) -> None:
        """The step that read copy sources and checkpoints is over."""
        for ids in self.pins:
            self.nodes.unref(ids, now)
        for point in self.pinned_points:
            point.pins -= 1
        self.pins, self.pinned_points = [], []

    # ---- a row grows ------------------------------------------------------------------------------------------------------------

    def reserve(self, chain: Chain, end: int, now: float) -> int:
        """Get blocks for positions before `end`, or for as many as can be had; returns the position (at most `end`) they reach."""
        k = self.blocks_for(end) - chain.n
        if k > 0:
            got = self._make_room(k, now)
            if got < k and self._reclaim(chain, now):
                got = self._make_room(k, now)
            self._extend(chain, got, now)
        return min(end, chain.n * self.block)

    def _reclaim(self, chain: Chain, now: float) -> bool:
        """Blocks that the row computed again take the place of the twins that the index knew before, where nobody else reads those: a row alone
        never needs two copies of its own history. Whether any twin was freed."""
        nodes = self.nodes
        twins = [node for node in chain.shadows if nodes.refs[node] == 1]
        for twin in twins:
            own = int(chain.nodes[nodes.depth[twin]])
            self.index.replace(twin, own)
            self.points.move(twin, own)
            nodes.point[own], nodes.point[twin] = nodes.point[twin], False
            nodes.hits[own] += nodes.hits[twin]
            nodes.created[own] = nodes.created[twin]
            if chain.tip == twin:
                chain.tip = own
            chain.shadows.remove(twin)
        nodes.unref(np.array(twins, np.int32), now)
        return bool(twins)

    def reserve_each(self, chains: list[Chain], now: float) -> bool:
        """One block more for each chain if free memory has them all; False (nothing changed) otherwise."""
        n = len(chains)
        if self.denies is not None or self.nodes.n_free < n or any(p.n_free < n for p in self.pools):
            return False
        nodes = self.nodes.take(n, np.array([c.n for c in chains], np.int32), now).tolist()
        windows = [pool.take(n).tolist() for pool in self.pools]
        for i, chain in enumerate(chains):
            at = chain.n
            chain.grow(at + 1)
            chain.nodes[at] = nodes[i]
            for w, ids in enumerate(windows):
                chain.windows[w][at] = ids[i]
            chain.n = at + 1
        return True

    def _extend(self, chain: Chain, k: int, now: float) -> None:
        if k <= 0:
            return
        n = chain.n
        chain.grow(n + k)
        chain.nodes[n : n + k] = self.nodes.take(k, np.arange(n, n + k, dtype=np.int32), now)
        for w, pool in enumerate(self.pools):
            chain.windows[w][n : n + k] = pool.take(k)
        chain.n = n + k

    def _make_room(self, k: int, now: float) -> int:
        """Evict until k more blocks are free in every group, as far as possible; how many there are, at most k."""
        if k <= 0 or (self.denies is not None and self.denies()):
            return 0
        short = k - self.nodes.n_free
        if short > 0 and self.nodes.n_cached:
            if self.policy.uses_wanted:
                self.nodes.wanted[:] = 0
                for path in self.wanted():
                    self.nodes.wanted[path] += 1
            self.evicted += evict(self.nodes, self.policy, short, now, self._remove)
        got = min(k, self.nodes.n_free)
        if self.pools and min(p.n_free for p in self.pools) < got:
            for point in self.points.leaving(self.policy, now):
                if point.windows and min(p.n_free for p in self.pools) < got:
                    self.drop_point(point)
        return min([got, *(p.n_free for p in self.pools)])

    def _remove(self, node: int) -> None:
        if self.nodes.point[node]:
            for point in list(self.points.by_node[node]):
                self.drop_point(point)
        self.index.remove(node)
        self.nodes.n_cached -= 1
        self.nodes.free(np.array([node], np.int32))

    def empty(self, now: float) -> None:
        """Drop everything that nobody reads: cached blocks and checkpoints."""
        self.evicted += evict(self.nodes, self.policy, self.nodes.n_cached, now, self._remove)
        for point in [p for p in self.points.all if p.pins == 0]:
            self.drop_point(point)

    def commit(self, chain: Chain, tokens: np.ndarray, done: int) -> list[int]:
        """Publish the full blocks of tokens[:done] that the index does not know yet; their keys."""
        first, last, block = chain.published, done // self.block, self.block
        if chain.private or last <= first:
            return []
        ids = tokens[first * block : last * block]
        sums = self.index.sums(chain.seed, first, ids)
        keys: list[int] = mix(sums).tolist()
        for i, (key, total) in enumerate(zip(keys, sums.tolist(), strict=True)):
            if not self._publish(chain, key, total, ids[i * block : (i + 1) * block]):
                break
        return keys

    def commit_next(self, chains: list[Chain], ids: np.ndarray) -> list[int]:
        """Publish the next block of each of several chains (none private); ids int32[chains, block]; their keys."""
        sums = self.index.next_sums(np.array([c.seed for c in chains], np.uint64), np.array([c.published for c in chains]), ids)
        keys: list[int] = mix(sums).tolist()
        for chain, key, total, row in zip(chains, keys, sums.tolist(), ids, strict=True):
            self._publish(chain, key, total, row)
        return keys

    def _publish(self, chain: Chain, key: int, total: int, ids: np.ndarray) -> bool:
        """Publish a chain's next block; False when its history must stay private from here on."""
        at = chain.published
        node = int(chain.nodes[at])
        known = self.index.publish(node, chain.tip, key, ids)
        if known < 0:
            chain.private = True
            return False
        if known != node:                                           # somebody computed the same tokens: later blocks hang below the first copy
            self.nodes.ref(np.array([known], np.int32), float(self.nodes.last_use[node]))
            chain.shadows.append(known)
        chain.tip, chain.seed, chain.published = known, total, at + 1
        if chain.loose:
            self._settle(chain, known, at * self.block, (at + 1) * self.block)
        return True

    def _settle(self, chain: Chain, node: int, begin: int, end: int) -> None:
        """Tie loose checkpoints of positions in (begin, end] to the node that now covers them."""
        for point in [p for p in chain.loose if begin < p.pos <= end]:
            chain.loose.remove(point)
            if point in self.points.all and self.points.attach(point, node):
                self.nodes.point[node] = True

    def trim(self, chain: Chain, done: int) -> list[tuple[int, int]]:
        """Give back window blocks that no query at or after position `done` reads; (cache group, block index) pairs."""
        gone: list[tuple[int, int]] = []
        for w, span in enumerate(self.spans):
            keep = min(max(done - span + 1, 0) // self.block, chain.n)
            first = chain.first[w]
            if keep > first:
                ids = chain.windows[w][first:keep]
                self.pools[w].give(ids[ids >= 0])
                ids[:] = -1
                gone += [(self.windowed[w], b) for b in range(first, keep)]
                chain.first[w] = keep
        return gone

    # ---- checkpoints --------------------------------------------------------------------------------------------------------------

    def _take_slot(self, now: float) -> int | None:
        """A recurrent slot (dropping checkpoints if need be); -1 for models without state, None when all slots are rows'."""
        if not self.stateful:
            return -1
        if not self.slots.n_free:
            for point in self.points.leaving(self.policy, now):
                self.drop_point(point)
                if self.slots.n_free:
                    break
        return int(self.slots.take(1)[0]) if self.slots.n_free else None

    def checkpoint_slot(self, now: float) -> int | None:
        """A slot for a checkpoint; rows go first, so at least one slot in eight stays free for them where checkpoints can yield."""
        if not self.stateful:
            return -1
        if self.slots.n_free <= self.slots.total // 8:
            for point in self.points.leaving(self.policy, now)[:1]:
                self.drop_point(point)
        return int(self.slots.take(1)[0]) if self.slots.n_free > self.slots.total // 8 else None

    def give_slot(self, slot: int) -> None:
        if slot >= 0:
            self.slots.give(np.array([slot], np.int32))

    def point_at(self, chain: Chain, pos: int, slot: int, now: float) -> Point | None:
        """Register the state after `pos` tokens of a chain that has computed exactly so many. The slot's reference passes to the point."""
        if chain.private or pos <= 0:
            self.give_slot(slot)
            return None
        windows = []
        for w, span in enumerate(self.spans):
            first = max(max(pos - span + 1, 0) // self.block, chain.first[w])
            ids = chain.windows[w][first : self.blocks_for(pos)].copy()
            self.pools[w].share(ids)
            windows.append((first, ids))
        point = Point(pos, windows, slot, created=now, last_use=now)
        self.points.add(point)
        self.points_made += 1
        if pos % self.block:
            chain.loose.append(point)
        elif chain.published * self.block != pos or not self.points.attach(point, chain.tip):
            if point in self.points.all:
                self.drop_point(point)
            return None
        else:
            self.nodes.point[chain.tip] = True
        return point

    def drop_point(self, point: Point) -> None:
        node = point.node
        if self.points.drop(point):
            self.nodes.point[node] = False

    # ---- a row ends -------------------------------------------------------------------------------------------------------------

    def finish(self, chain: Chain, tokens: np.ndarray, done: int, now: float) -> list[int]:
        """Publish all of tokens[:done], the partly filled block and (for models that cannot be cut) a checkpoint at the end; keys as `commit`."""
        keys = self.commit(chain, tokens, done)
        begin = chain.published * self.block
        if chain.private or done - begin >= self.block:
            return keys
        node = chain.tip
        if done > begin:
            ids = tokens[begin:done]
            node = int(chain.nodes[chain.published])
            if not self.index.publish_partial(node, chain.tip, ids):
                node = self.index.partial(chain.tip, ids)[0]
            self._settle(chain, node, begin, done)
        if not self.can_cut and done > 0:
            if chain.slot >= 0:
                self.slots.share(np.array([chain.slot], np.int32))
            self.point_at(chain, done, chain.slot, now)
            self._settle(chain, node, begin, done)
            chain.end = next((p for p in self.points.by_node.get(node, ()) if p.pos == done), None)
        return keys

    def hold(self, chain: Chain, by: int) -> None:
        """Pin (by = 1) or unpin (-1) the checkpoint at the end of a finished chain that stays as a fork point."""
        if chain.end is not None:
            chain.end.pins += by

    def drop(self, chain: Chain, now: float) -> None:
        """Give back everything the chain refers to."""
        for point in chain.loose:
            if point in self.points.all and not point.pins:
                self.drop_point(point)
        chain.loose = []
        self.nodes.unref(chain.nodes[: chain.n][::-1], now)
        if chain.shadows:
            self.nodes.unref(np.array(chain.shadows, np.int32), now)
        for w, pool in enumerate(self.pools):
            ids = chain.windows[w][: chain.n]
            pool.give(ids[ids >= 0])
        self.give_slot(chain.slot)
        self.index.pin_root(chain.root, -1)
        chain.n, chain.shadows, chain.slot = 0, [], -1
