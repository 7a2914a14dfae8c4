"""The published instances come back bit for bit; decisions of heuristics are read strictly."""

import hashlib
import io

import numpy as np
import pytest

from ahd.instances import STREAMS, counts, distances, instances, knapsack_capacity
from coevo.errors import ConfigError
from coevo.sandbox import CandidateError, Category, decisions

SHA256 = {
    ("construct_tsp", "train", 50): "3264665d4e69",
    ("construct_tsp", "test", 20): "8806cdd2737b",
    ("construct_tsp", "test", 50): "7154aa3e5b8b",
    ("construct_tsp", "test", 100): "af47bec781fc",
    ("construct_kp", "train", 100): "5d322c52542f",
    ("construct_kp", "test", 100): "196567c13f06",
    ("construct_kp", "test", 200): "794f65ed506a",
    ("aco_tsp", "train", 50): "49cfd10c6d21",
    ("aco_tsp", "test", 20): "84cca88c7bcc",
    ("aco_tsp", "test", 50): "d17c6c87ee62",
    ("aco_tsp", "test", 100): "c2ef5e1fa54a",
    ("aco_cvrp", "train", 50): "caf38e123b53",
    ("aco_cvrp", "test", 50): "31abe8d53a4c",
    ("aco_cvrp", "test", 100): "be269268119b",
}
"""Beginnings of the hashes of the published .npy files."""


class TestInstances:
    @pytest.mark.parametrize("key", SHA256, ids=lambda key: "-".join(map(str, key)))
    def test_as_published(self, key):
        file = io.BytesIO()
        np.save(file, instances(*key))
        assert hashlib.sha256(file.getvalue()).hexdigest().startswith(SHA256[key])

    @pytest.mark.parametrize(
        ("split", "size", "mean_bins"),
        [
            ("train", 500, 199.6),
            ("val", 120, 48.453125),
            ("val", 500, 200.640625),
            ("val", 1000, 400.5),
            ("test", 500, 200.65625),
            ("test", 1000, 400.40625),
        ],
    )
    def test_items_to_pack_have_the_published_total(self, split, size, mean_bins):
        demands = instances("aco_bpp", split, size)
        assert demands.min() >= 20
        assert demands.max() <= 100
        assert np.ceil(demands.sum(axis=1) / 150).mean() == mean_bins

    def test_the_colonys_train_set_is_the_beginning_of_the_constructive_one(self):
        assert np.array_equal(instances("aco_tsp", "train", 50), instances("construct_tsp", "train", 50)[:5])

    def test_a_small_test_set_is_the_beginning_of_the_next_stream(self):
        small, next_ = instances("aco_tsp", "test", 20), instances("aco_tsp", "test", 50)
        assert np.array_equal(small.reshape(-1), next_.reshape(-1)[: small.size])

    @pytest.mark.parametrize("family", STREAMS)
    def test_every_split_and_size_is_there_once_and_fresh(self, family):
        seen = set()
        for (split, size), count in counts(family).items():
            if size > 200 and family != "aco_bpp":
                continue
            drawn = instances(family, split, size)
            assert len(drawn) == count
            assert drawn.shape[1] in (size, size + 1)
            seen |= {(split, instance.tobytes()) for instance in drawn}
        assert {split for split, _ in seen} == {"train", "val", "test"}
        assert len({data for _, data in seen}) == len(seen)

    def test_instances_cannot_be_changed(self):
        with pytest.raises(ValueError, match="read-only"):
            instances("construct_kp", "train", 100)[0, 0, 0] = 0

    def test_an_unknown_size_names_the_known_ones(self):
        with pytest.raises(ConfigError, match="construct_kp has no val instances of size 7") as caught:
            instances("construct_kp", "val", 7)
        assert caught.value.hint == "choose among 50, 100, 200"

    def test_distances_and_capacities(self):
        corners = np.array([[0.0, 0.0], [3.0, 4.0]])
        assert distances(corners).tolist() == [[0, 5], [5, 0]]
        assert (knapsack_capacity(50), knapsack_capacity(100), knapsack_capacity(200)) == (12.5, 25, 25)


def where(i):
    return f"instance {i}, step 3"


class TestDecisions:
    @pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), np.array([3]), np.array([[3.0]])])
    def test_whole_numbers(self, value):
        assert decisions.integers([1, value], where).tolist() == [1, 3]

    @pytest.mark.parametrize(
        ("value", "category", "said"),
        [
            (True, Category.WRONG_SHAPE, "True was returned, not a whole number"),
            (np.bool_(True), Category.WRONG_SHAPE, "True was returned, not a whole number"),
            (np.array([True]), Category.WRONG_SHAPE, "True was returned, not a whole number"),
            (3.5, Category.WRONG_SHAPE, "3.5 was returned, not a whole number"),
            (float("nan"), Category.NON_FINITE, "nan was returned, not a whole number"),
            (float("-inf"), Category.NON_FINITE, "-inf was returned, not a whole number"),
            (None, Category.WRONG_SHAPE, "None was returned, not one number"),
            ("3", Category.WRONG_SHAPE, "'3' was returned, not one number"),
            ("x" * 99, Category.WRONG_SHAPE, "xxx… was returned, not one number"),
            ([3], Category.WRONG_SHAPE, "a list of 1 was returned, not one number"),
            (np.array([3, 4]), Category.WRONG_SHAPE, "an array of shape (2,) was returned, not one number"),
            (np.array([]), Category.WRONG_SHAPE, "an array of shape (0,) was returned, not one number"),
            (np.array([3j]), Category.WRONG_SHAPE, "was returned, not one number"),
            (10**30, Category.INFEASIBLE, "is out of range"),
            (1e300, Category.INFEASIBLE, "is out of range"),
        ],
    )
    def test_what_is_no_whole_number(self, value, category, said):
        with pytest.raises(CandidateError) as caught:
            decisions.integers([1, value], where)
        assert caught.value.category is category
        assert caught.value.message.startswith("instance 1, step 3: ")
        assert said in caught.value.message

    def test_positions(self):
        assert decisions.positions([0, 2.0], 3, where).tolist() == [0, 2]
        assert decisions.positions([0, 4], np.array([1, 5]), where).tolist() == [0, 4]
        for values, number, most in (([0, 3], 3, 3), ([2, -1], 3, 3), ([2, 4], np.array([3, 4]), 4)):
            with pytest.raises(CandidateError) as caught:
                decisions.positions(values, number, where)
            assert caught.value.category is Category.INFEASIBLE
            said = f"position {values[1]} does not exist; there are {most}, from 0 on"
            assert caught.value.message == f"instance 1, step 3: {said}"

    def test_finite_numbers(self):
        values = [1, 2.5, True, np.array([4.0]), np.float32(0.5)]
        assert decisions.reals(values, where).tolist() == [1, 2.5, 1, 4, 0.5]

    @pytest.mark.parametrize(
        ("value", "category"),
        [
            (float("nan"), Category.NON_FINITE),
            (float("inf"), Category.NON_FINITE),
            (10**400, Category.NON_FINITE),
            (None, Category.WRONG_SHAPE),
            ((1.0, 2.0), Category.WRONG_SHAPE),
        ],
    )
    def test_what_is_no_finite_number(self, value, category):
        with pytest.raises(CandidateError, match=r"^instance 1, step 3: ") as caught:
            decisions.reals([0.5, value], where)
        assert caught.value.category is category

    def test_a_matrix(self):
        single = decisions.matrix(np.eye(2, dtype=bool), (2, 2), "instance 0")
        assert single.dtype == np.float32
        assert single.tolist() == [[1, 0], [0, 1]]

    @pytest.mark.parametrize(
        ("value", "category", "said"),
        [
            (np.ones(2), Category.WRONG_SHAPE, "the array has shape (2,) instead of (2, 2)"),
            ([[1, 2], [3, 4]], Category.WRONG_SHAPE, "a list of 2 was returned, not an array of numbers"),
            (None, Category.WRONG_SHAPE, "None was returned, not an array of numbers"),
            (np.array([[1, np.nan], [1, 1]]), Category.NON_FINITE, "the array holds nan at (0, 1)"),
            (np.array([[1, 1], [1e39, 1]]), Category.NON_FINITE, "the array holds 1e+39 at (1, 0)"),
        ],
    )
    def test_what_is_no_matrix(self, value, category, said):
        with pytest.raises(CandidateError) as caught:
            decisions.matrix(value, (2, 2), "instance 7")
        assert caught.value.category is category
        assert caught.value.message.startswith(f"instance 7: {said}")
