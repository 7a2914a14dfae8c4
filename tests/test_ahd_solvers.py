"""The solvers behind the problems: golden values, batches equal to plain loops, bounds that hold."""

import runpy
from itertools import combinations, combinations_with_replacement, pairwise, permutations
from pathlib import Path

import numpy as np
import pytest

from ahd import PROBLEMS, aco, admissible, bounds, packing, references
from ahd.instances import counts, distances, instances, knapsack_capacity
from ahd.problems.aco_tsp import matrices
from coevo.sandbox import CandidateError, Category

BENCHMARK = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "heuristics.py"))


def draws(count, seed=0):
    return [aco.NumpyDraws(seed + i) for i in range(count)]


class TorchDraws:
    """The random numbers of `torch.multinomial` after `torch.manual_seed`."""

    def __init__(self, torch, seed):
        self.torch = torch
        self.generator = torch.Generator().manual_seed(seed)

    def starts(self, ants, nodes):
        return self.torch.randint(0, nodes, (ants,), generator=self.generator).numpy()

    def exponentials(self, out):
        self.torch.from_numpy(out).exponential_(1, generator=self.generator)


class TestTours:
    @pytest.mark.parametrize(("power", "golden"), [(1, 6.48937), (4, 5.87461)])
    def test_the_published_contract_with_torchs_random_numbers(self, power, golden):
        torch = pytest.importorskip("torch")
        length = matrices(instances("aco_tsp", "train", 50))
        heuristic = np.maximum((1 / length**power).astype(np.float32), aco.HEURISTIC_FLOOR)
        found = aco.tours(length, heuristic, [TorchDraws(torch, 1234 + 50 * 1000 + i) for i in range(5)])
        assert found.mean() == pytest.approx(golden, abs=5e-6)

    @pytest.mark.parametrize(("power", "golden"), [(1, 6.48937), (4, 5.87461)])
    def test_the_same_with_numpys_within_noise(self, power, golden):
        length = matrices(instances("aco_tsp", "train", 50))
        found = PROBLEMS["aco_tsp"]().best(length, (1 / length**power).astype(np.float32))
        assert np.mean(found) == pytest.approx(golden, abs=0.1)

    def test_a_batch_finds_what_each_instance_finds_alone_and_a_plain_loop_finds(self):
        length = matrices(instances("aco_tsp", "train", 50)[:3, :12])
        heuristic = (1 / length).astype(np.float32)
        settings = {"ants": 5, "iterations": 6}
        batch = aco.tours(length, heuristic, draws(3), **settings)
        alone = [
            aco.tours(length[i : i + 1], heuristic[i : i + 1], draws(1, i), **settings)[0] for i in range(3)
        ]
        plain = [
            BENCHMARK["plain_tour"](length[i], heuristic[i], draws(1, i)[0], **settings) for i in range(3)
        ]
        assert batch.tolist() == alone
        assert batch == pytest.approx(plain, rel=1e-12)

    def test_edges_of_no_desirability_still_close_the_tour(self):
        length = matrices(instances("aco_tsp", "train", 50)[:1, :8])
        found = aco.tours(length, np.full_like(length, aco.HEURISTIC_FLOOR, dtype=np.float32), draws(1))
        optimum = min(
            sum(length[0, a, b] for a, b in zip((0, *order), (*order, 0), strict=True))
            for order in permutations(range(1, 8))
        )
        assert optimum <= found[0] + 1e-12 < 1.05 * optimum

    def test_overflow_is_the_heuristics_fault(self):
        length = matrices(instances("aco_tsp", "train", 50)[:1, :8])
        with pytest.raises(CandidateError, match="overflows; return values below 1e30") as caught:
            aco.tours(length, np.full(length.shape, 3e38, np.float32), draws(1))
        assert caught.value.category is Category.NON_FINITE

    def test_batches_cover_every_instance_once(self):
        parts = aco.batches(64, 100)
        assert [i for part in parts for i in range(64)[part]] == list(range(64))
        assert len(parts) > 1


class TestDeliveries:
    def problem(self, count=3, nodes=13):
        rows = instances("aco_cvrp", "train", 50)[:count, :nodes]
        length = matrices(rows[..., 1:])
        return length, rows[..., 0], (1 / length).astype(np.float32)

    def test_waiting_penalised_as_published(self):
        rows = instances("aco_cvrp", "train", 50)
        length = matrices(rows[..., 1:])
        problem = PROBLEMS["aco_cvrp_penalised"]()
        found = problem.best(length, rows[..., 0], (1 / length).astype(np.float32))
        assert np.mean(found) == pytest.approx(
            18.65, abs=0.6
        )  # one unseeded run; ours vary from 18.37 to 18.96

    def test_true_length_where_waiting_is_free(self):
        length, demands, heuristic = self.problem(1, 51)
        lengths = [
            aco.deliveries(length, demands, 50.0, heuristic, draws(1, seed), iterations=40)[0]
            for seed in range(2)
        ]
        assert np.mean(lengths) == pytest.approx(13.0, abs=0.5)

    def test_a_batch_finds_what_each_instance_finds_alone_and_a_plain_loop_finds(self):
        length, demands, heuristic = self.problem()
        settings = {"ants": 5, "iterations": 6}
        batch = aco.deliveries(length, demands, 50.0, heuristic, draws(3), **settings)
        alone = [
            aco.deliveries(
                length[i : i + 1], demands[i : i + 1], 50.0, heuristic[i : i + 1], draws(1, i), **settings
            )[0]
            for i in range(3)
        ]
        plain = [
            BENCHMARK["plain_routes"](length[i], demands[i], heuristic[i], draws(1, i)[0], **settings)
            for i in range(3)
        ]
        assert batch.tolist() == alone
        assert batch == pytest.approx(plain, rel=1e-12)

    def test_only_ants_that_wait_are_penalised(self):
        one_ant, many_ants = [
            [
                aco.deliveries(
                    *self.problem()[:2],
                    20.0,
                    self.problem()[2],
                    draws(3),
                    ants=ants,
                    iterations=1,
                    waiting=waiting,
                )
                for waiting in ("free", "penalised")
            ]
            for ants in (1, 6)
        ]
        assert one_ant[0].tolist() == one_ant[1].tolist()
        assert (many_ants[0] <= many_ants[1]).all()
        assert (many_ants[0] < many_ants[1]).any()


class TestPacking:
    @pytest.mark.parametrize(
        ("affinity", "golden", "noise"),
        [
            (lambda demand: np.tile(demand, (500, 1)), 202.8, 0.6),
            (lambda demand: np.ones((500, 500)), 209.0, 0.4),
        ],
    )
    def test_golden_values(self, affinity, golden, noise):
        problem = PROBLEMS["aco_bpp"]()
        demands = instances("aco_bpp", "train", 500)
        found = [
            problem.best(demand, affinity(demand).astype(np.float32), i) for i, demand in enumerate(demands)
        ]
        assert np.mean(found) == pytest.approx(golden, abs=noise + 1e-9)

    def test_a_plain_loop_finds_the_same(self):
        demand = instances("aco_bpp", "train", 500)[0, :60]
        affinity = packing.scaled(np.random.default_rng(1).random((60, 60), dtype=np.float32))
        found = packing.sampled(demand, 150, affinity, np.random.default_rng(2))
        assert found == BENCHMARK["plain_bins"](demand, affinity, np.random.default_rng(2))

    @pytest.mark.parametrize("draw", [False, True])
    def test_bins_hold_every_item_and_no_more_than_fits(self, draw):
        demand = instances("aco_bpp", "train", 500)[0, :80]
        generator = np.random.default_rng(3)
        order = generator.random((9, 80), dtype=np.float32)
        affinity = packing.scaled(np.ones((80, 80), np.float32))
        for bins in packing._construct(demand, 150, affinity, order, generator if draw else None):
            fills = np.bincount(bins, weights=demand)
            assert fills.sum() == demand.sum()
            assert fills.min() > 0
            assert fills.max() <= 150

    def test_an_ant_colony_learns_which_items_go_together(self):
        demand = np.array([90, 80, 77, 60, 70, 73] * 4)
        affinity = packing.scaled(np.ones((24, 24), np.float32))
        assert packing.colony(demand, 150, affinity, np.random.default_rng(0)) in (12, 13)

    def test_affinity_is_clipped_and_scaled(self):
        scaled = packing.scaled(np.array([[-5.0, 2e6], [1.0, 1e-9]], np.float32))
        assert scaled.tolist() == [
            [pytest.approx(1e-6), 1.0],
            [pytest.approx(1e-6), pytest.approx(1e-6)],
        ]


class TestAdmissibleSets:
    def test_35_of_84_triples_are_bad_and_their_order_does_not_matter(self):
        bad = admissible.bad_triples()
        triples = list(combinations_with_replacement(range(7), 3))
        assert (len(triples), sum(bad[triple] for triple in triples)) == (84, 35)
        assert all(bad[a, b, c] == bad[order] for a, b, c in triples for order in permutations((a, b, c)))

    @pytest.mark.parametrize(("n", "w", "number"), [(12, 7, 448), (15, 10, 2432), (21, 15, 68768)])
    def test_candidates_are_in_lexicographic_order(self, n, w, number):
        vectors = admissible.candidates(n, w).tolist()
        assert len(vectors) == number
        assert vectors == sorted(vectors)

    def test_candidates_have_the_weight(self):
        assert all(
            len(vector) == 12 and sum(digit != 0 for digit in vector) == 7
            for vector in admissible.vectors(12, 7)
        )

    @pytest.mark.parametrize(
        ("n", "w", "priority", "golden"),
        [(12, 7, None, (36, 690)), (15, 10, None, (74, 1842)), (15, 10, sum, (78, 1740))],
    )
    def test_golden_values(self, n, w, priority, golden):
        scores = np.array([float(priority(v)) if priority else 0.0 for v in admissible.vectors(n, w)])
        taken = admissible.chosen(scores, n, w)
        assert (len(taken), admissible.size(taken, n, w)) == golden

    def test_a_plain_loop_takes_the_same(self):
        scores = np.random.default_rng(0).random(448)
        assert admissible.chosen(scores, 12, 7).tolist() == BENCHMARK["plain_set"](scores, 12, 7)

    def test_a_large_set_is_admissible(self):
        """Three vectors of the set, whichever way their groups are turned, are separated somewhere."""
        n, w = 18, 13
        scores = np.random.default_rng(1).random(len(admissible.candidates(n, w)))
        taken = admissible.chosen(scores, n, w)
        kinds, bad = admissible.candidates(n, w)[taken[:30]], admissible.bad_triples()
        assert len(taken) > 64  # more than one word of bits
        assert not any(bad[a, b, c].all() for a, b, c in combinations(kinds, 3))
        supports = {
            tuple(np.array(admissible.WEIGHTS)[vector]) for vector in admissible.candidates(n, w)[taken]
        }
        assert len(supports) == len(taken)


class TestBounds:
    def test_a_tour_bound_is_close_below_the_optimum(self):
        length = distances(instances("construct_tsp", "train", 50)[:6, :8])
        optima = np.array(
            [
                min(
                    sum(one[a, b] for a, b in zip((0, *order), (*order, 0), strict=True))
                    for order in permutations(range(1, 8))
                )
                for one in length
            ]
        )
        bound = bounds.tour(length)
        assert (bound <= optima + 1e-9).all()
        assert (bound >= 0.97 * optima).all()

    def test_a_routes_bound_is_below_the_optimum(self):
        rows = instances("aco_cvrp", "train", 50)[:4, :7]
        length, demands = distances(rows[..., 1:]), rows[..., 0]
        for one, demand, bound in zip(length, demands, bounds.routes(length, demands, 15.0), strict=True):
            assert (
                bound <= min(cheapest(one, demand, 15.0, order) for order in permutations(range(1, 7))) + 1e-9
            )

    def test_a_knapsack_bound_is_below_the_optimum(self):
        items = instances("construct_kp", "train", 100)[:5, :10]
        bound = bounds.knapsack(items[..., 0], items[..., 1], 2.0)
        for (weights, values), least in zip(items.transpose(0, 2, 1), bound, strict=True):
            packs = [list(pack) for size in range(11) for pack in combinations(range(10), size)]
            best = max(values[pack].sum() for pack in packs if weights[pack].sum() <= 2.0)
            assert -best - 0.5 <= least <= -best

    def test_a_bins_bound_counts_large_items_apart(self):
        assert bounds.bins(np.array([[80, 80, 80, 20], [50, 50, 50, 30]]), 150).tolist() == [3, 2]

    @pytest.mark.parametrize("family", ["construct_tsp", "aco_tsp", "aco_cvrp"])
    def test_the_table_has_the_bounds_of_the_train_sets(self, family):
        rows = instances(family, "train", 50)
        length = distances(rows[..., -2:])
        bound = bounds.routes(length, rows[..., 0], 50.0) if family == "aco_cvrp" else bounds.tour(length)
        stored = references.reference(family, "train", 50).bound
        assert 0 <= bound.mean() - stored < 1e-5

    def test_the_table_has_the_bounds_of_bins_and_large_knapsacks(self):
        for split, size in counts("aco_bpp"):
            bound = bounds.bins(instances("aco_bpp", split, size), 150).mean()
            assert references.reference("aco_bpp", split, size).bound == pytest.approx(bound, abs=1e-9)
        items = instances("construct_kp", "test", 500)
        bound = bounds.knapsack(items[..., 0], items[..., 1], knapsack_capacity(500)).mean()
        stored = references.reference("construct_kp", "test", 500).bound
        assert stored == pytest.approx(bound, abs=1e-5)
        assert stored <= bound


def cheapest(length, demand, capacity, order):
    """The cheapest routes that serve customers in this order."""
    best = [0.0] + [np.inf] * len(order)
    for start in range(len(order)):
        for stop in range(start + 1, len(order) + 1):
            route = order[start:stop]
            if sum(demand[node] for node in route) <= capacity:
                path = (0, *route, 0)
                cost = sum(length[a, b] for a, b in pairwise(path))
                best[stop] = min(best[stop], best[start] + cost)
    return best[-1]
