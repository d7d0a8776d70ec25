"""Slices of leaves: one plan wherever they lie, whose memory they are in, and that it never changes."""

import gc
import weakref

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, jit, nn
from dawdle.dtype import float32
from dawdle.errors import DawdleError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.narrow import narrowed
from dawdle.lazy.ops import Op
from dawdle.lazy.verify import verify_graph
from dawdle.runtime import parts
from dawdle.runtime.cache import cache_stats
from dawdle.runtime.device import get_device
from dawdle.runtime.executor import load
from dawdle.runtime.structure import canonical

ROWS = np.arange(240, dtype=np.float32).reshape(24, 10)


def plans() -> int:
    return cache_stats()["plans"].misses


def rows(device: str = "CPU") -> Tensor:
    return Tensor(ROWS, device=device)


PIECES = [
    (lambda x: x[3:7], (30, 4, 10)),
    (lambda x: x[5], (50, 1, 10)),
    (lambda x: x[-1], (230, 1, 10)),
    (lambda x: x[5, 2:6], (52, 1, 4)),
    (lambda x: x[5, 2], (52, 1, 1)),
    (lambda x: x[4:5, :9], (40, 1, 9)),
    (lambda x: x[4:5:3], (40, 1, 10)),
    (lambda x: x.reshape(4, 6, 10)[1:3], (60, 2, 6, 10)),
    (lambda x: x[4:20][3:5], (70, 2, 10)),
    (lambda x: x[4:20].reshape(8, 20)[2, 5:], (85, 1, 15)),
    (lambda x: x.chunk(4)[2], (120, 6, 10)),
    (lambda x: x.split(5)[4], (200, 4, 10)),
    (lambda x: x.unbind()[7], (70, 1, 10)),
]


@pytest.mark.parametrize("case", range(len(PIECES)))
def test_what_is_a_piece(case):
    part, (start, *shape) = PIECES[case]
    x = rows()
    y = part(x)
    assert parts.piece(y.lazy) == (x.lazy, 4 * start)
    np.testing.assert_array_equal((y * 2).numpy().ravel(), 2 * ROWS.ravel()[start:][: np.prod(shape)])


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[:, 2:5],
        lambda x: x[::2],
        lambda x: x[5, ::3],
        lambda x: x[2:4, 1:3],
        lambda x: x[3:3],
        lambda x: x[7:2:-1],
        lambda x: x.T[2:4],
        lambda x: (x + 1)[2:4],
        lambda x: x[:, 2:5][1:2],
    ],
)
def test_what_is_no_piece(part):
    assert parts.piece(part(rows()).lazy) is None
    np.testing.assert_array_equal((part(rows()) * 2).numpy(), part(ROWS) * 2)


def step_of(net, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def trained(batches, wrap=lambda step: step):
    """The losses of two epochs, and how many plans each took."""
    dawdle.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 3))
    step = wrap(step_of(net, nn.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)))
    losses, made = [], []
    for x, y in [*batches(), *batches()]:
        before = plans()
        losses.append(step(x, y).item())
        made.append(plans() - before)
    return losses, made


LABELS = np.arange(24) % 3


def test_the_batches_of_a_loop_have_one_plan():
    """Slices, those of a permutation and NumPy's give the same losses; after two steps nothing is planned."""
    x, y, order = rows(), Tensor(LABELS), Tensor(np.arange(24))
    starts = range(0, 24, 6)
    ways = [
        lambda: [(x[i : i + 6], y[i : i + 6]) for i in starts],
        lambda: [(x[order[i : i + 6]], y[order[i : i + 6]]) for i in starts],
        lambda: list(zip(x.split(6), y.split(6), strict=True)),
        lambda: [(Tensor(ROWS[i : i + 6]), Tensor(LABELS[i : i + 6])) for i in starts],
    ]
    found = [trained(way) for way in ways]
    for losses, made in found:
        assert losses == found[0][0] and made[2:] == [0] * 6
    # what holds a batch alone, and what is a batch of more, is the same to a plan
    assert found[2][1] == found[3][1] == [0] * 8


@pytest.mark.parametrize("device", ["NUMPY", "CPU"])
def test_jitted_steps_take_slices(device):
    x, y = Tensor(ROWS, device=device), Tensor(LABELS, device=device)
    with dawdle.config.override(device=device):
        losses, made = trained(lambda: [(x[i : i + 6], y[i : i + 6]) for i in range(0, 24, 6)], jit)
        plain, _ = trained(lambda: [(x[i : i + 6], y[i : i + 6]) for i in range(0, 24, 6)])
    np.testing.assert_allclose(losses, plain, rtol=1e-5)
    assert made[1:] == [0] * 7


def test_rounds_of_an_unrolled_loop_share_a_kernel():
    x = rows()
    h = Tensor.zeros(10)
    for t in range(24):
        h = (x[t] + h).contiguous()
    before = cache_stats()["generated kernels"].misses
    np.testing.assert_array_equal(h.numpy(), ROWS.sum(0))
    assert cache_stats()["generated kernels"].misses <= before + 2  # the first round adds nothing


def test_slices_and_leaves_have_one_structure():
    def structure(a, b):
        return canonical([(a * b).lazy], end=parts.Pieces(get_device("CPU")).end)

    key, leaves, _ = structure(rows()[3:5], rows()[8:10])
    assert [n.op for n in leaves] == [Op.SLICE] * 2
    whole = Tensor(ROWS[:2])
    assert key == structure(whole, Tensor(ROWS[:2]))[0] == structure(rows()[:2], whole)[0]


def test_equal_slices_are_one_leaf():
    x = rows()
    one, two, other = x[3:5] * 2, x[3:5] * 2, x[6:8] * 2

    def found(*tensors):
        return canonical([t.lazy for t in tensors], end=parts.Pieces(get_device("CPU")).end)

    assert len(found(one, two)[1]) == 1 and len(found(one, other)[1]) == 2
    assert found(one, two)[0] != found(one, other)[0]
    total = (one + two * other + x[3:5].reshape(10, 2).T.reshape(2, 10)).numpy()
    a, b = ROWS[3:5], ROWS[6:8]
    np.testing.assert_array_equal(total, 2 * a + 4 * a * b + a.reshape(10, 2).T.reshape(2, 10))


WORK = [
    (lambda x: x / 255, 1),
    (lambda x: (x.reshape(24, 5, 2) - x[0].reshape(5, 2)).permute(0, 2, 1) / x.mean(0).reshape(2, 5), 1),
    (lambda x: ((x > 30) & (x.int() % 2 == 0)).float(), 1),
    (lambda x: x * 2 + 1, 2),  # contracted here but perhaps not there
    (lambda x: x.exp(), 2),  # not cheap
]


@pytest.mark.parametrize("case", range(len(WORK)))
def test_rows_of_cheap_work_are_work_on_rows(case):
    """A data set that is scaled, and never realised."""
    work, structures = WORK[case]
    x = rows()
    scaled = work(x)
    with dawdle.config.override(device="NUMPY"):
        expected = work(Tensor(ROWS)).numpy()
    keys = set()
    for i in (3, 8):
        part = scaled[i : i + 6] * 1
        keys.add(canonical([part.lazy], end=parts.Pieces(get_device("CPU")).end)[0])
        np.testing.assert_allclose(part.numpy(), expected[i : i + 6], rtol=1e-5)
    assert len(keys) == structures and not scaled.lazy.is_realized


def random_slice(x: LazyBuffer, rng: np.random.Generator) -> LazyBuffer:
    ranges = []
    for axis, n in enumerate(x.shape):
        kind = rng.random() if axis == 0 or rng.random() < 0.4 else 1
        a, b = sorted(int(k) for k in rng.integers(0, n + 1, 2))
        ranges.append((a, b, 1) if kind < 0.6 else (a, n, 2) if kind < 0.7 else (0, n, 1))
    return build.slice_(x, ranges)


def random_step(x: LazyBuffer, rng: np.random.Generator) -> LazyBuffer:
    """A value made of another one of up to three dimensions."""
    kind = rng.random()
    if kind < 0.35 or not x.size:
        return random_slice(x, rng)
    if kind < 0.5:
        first = int(rng.choice([d for d in range(1, x.size + 1) if x.size % d == 0]))
        return build.reshape(x, (first, x.size // first))
    if kind < 0.6:
        return build.permute(x, [0, *1 + rng.permutation(x.ndim - 1)])
    if kind < 0.7:
        return build.expand(x, [3 if n == 1 else n for n in x.shape])
    op = Op.MUL if kind < 0.8 else Op.SUB
    return build.binary(op, x, build.full(x.shape, 2.0, float32, "CPU") if kind < 0.9 else x)


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_end_at_pieces(seed):
    """By the interpreter: what a graph is cut down to is the same value, and pieces are where they are said
    to be.
    """
    rng, device = np.random.default_rng(seed), get_device("CPU")
    pieces = works = 0
    for _ in range(60):
        pool = [Tensor(ROWS.reshape(shape)).lazy for shape in ((24, 10), (6, 4, 10), (240,))]
        for _ in range(10):
            pool.append(random_step(pool[int(rng.integers(max(0, len(pool) - 4), len(pool)))], rng))
        outputs = [x for x in pool[-5:] if x.op is not Op.BUFFER]
        expected = evaluate(outputs, load)
        found = parts.Pieces(device)
        leaves = canonical(outputs, end=found.end)[1]
        cut, ends = found.severed(outputs, leaves)
        verify_graph(cut)
        assert [(x.arg.address, x.nbytes) for x in ends] == [
            (x.address, n.nbytes) for x, n in zip(found.storages(leaves), leaves, strict=True)
        ]
        for a, b in zip(evaluate(cut, load), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        slices = [n for n in toposort(outputs) if n.op is Op.SLICE]
        pieces += sum(parts.piece(n) is not None for n in slices)
        works += sum(narrowed(n) is not None for n in slices)
    assert pieces > 15 and works > 5


# ---- memory


def test_a_slice_keeps_the_memory_it_is_in():
    x = rows()
    memory = weakref.ref(x.lazy.arg)
    with dawdle.no_grad():
        y = x[3:5] * 2
    del x
    gc.collect()
    assert memory() is not None
    np.testing.assert_array_equal(y.numpy(), 2 * ROWS[3:5])
    gc.collect()
    assert memory() is None


def test_a_realised_slice_has_memory_of_its_own():
    """Rows that are kept don't keep what they were taken from."""
    x = Tensor(np.zeros((4, 1 << 15), np.float32))
    memory = weakref.ref(x.lazy.arg)
    with dawdle.no_grad():
        kept = [x[1], x[2:4]]
        Tensor.realize(*kept, x[3] + 1)
    assert all(k.lazy.op is Op.BUFFER for k in kept)
    del x
    gc.collect()
    assert memory() is None
    assert all(not k.numpy().any() for k in kept)


def test_a_part_of_a_buffer_keeps_it():
    device = get_device("CPU")
    whole = device.from_numpy(ROWS)
    part = device.part(device.part(whole, 40, 800), 40, 80)
    memory = weakref.ref(whole)
    assert part.whole is whole
    del whole
    gc.collect()
    for _ in range(3):
        device.from_numpy(np.zeros_like(ROWS))
    np.testing.assert_array_equal(device.read(part, 0, np.dtype("f4"), (2, 10)), ROWS[2:4])
    live = device.allocator.stats().live
    del part
    gc.collect()
    assert memory() is None and device.allocator.stats().live < live


@pytest.mark.parametrize("device", ["NUMPY", "CPU"])
def test_slices_never_change(device):
    """Whatever is done to the tensor that they were taken of, before they are computed or after."""
    w = Tensor(ROWS, device=device, requires_grad=True)
    taken = {"plain": w[3:5], "read": w[3:5], "realised": w[3:5].detach().realize(), "row": next(iter(w[3:]))}
    assert (taken["read"] * 2).sum().item() == 2 * ROWS[3:5].sum()
    optimizer = nn.optim.SGD([w], lr=0.5)

    def step():
        optimizer.zero_grad()
        (w[2:6] * w[2:6]).sum().backward()
        optimizer.step()

    step()
    np.testing.assert_allclose(w.numpy()[2:6], 0 * ROWS[2:6], atol=1e-4)  # w - 0.5 * 2w
    jitted = jit(step)
    for _ in range(3):
        jitted()
    with dawdle.no_grad():
        w[3:5] = -1
        w.assign(w * 0).realize()
    Tensor.zeros(24, 10, device=device).contiguous().realize()
    for name, y in taken.items():
        np.testing.assert_array_equal(y.numpy(), ROWS[3] if name == "row" else ROWS[3:5], err_msg=name)


# ---- gradients


def test_gradients_of_slices():
    x = Tensor(ROWS, requires_grad=True)
    (x[2:4] * x[5]).sum().backward()
    expected = np.zeros_like(ROWS)
    expected[2:4] += ROWS[5]
    expected[5] = ROWS[2:4].sum(0)
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_a_slice_is_no_leaf_to_gradients():
    """Reading what was computed from it doesn't end what was recorded."""
    x = rows()
    y = x[2:4]
    z = (y * y).sum()
    assert z.item() == (ROWS[2:4] ** 2).sum()
    assert y.lazy.op is Op.SLICE
    dy, dx = z.gradient(y, x)
    np.testing.assert_array_equal(dy.numpy(), 2 * ROWS[2:4])
    np.testing.assert_array_equal(dx.numpy()[2:4], 2 * ROWS[2:4])


# ---- devices with memory of their own


def test_opencl_reads_parts_anywhere():
    """A part is the memory it lies in, with an offset: no copy, any number of bytes into it."""
    try:
        device = get_device("CL")
    except DawdleError as e:
        pytest.skip(str(e))
    x = Tensor(np.arange(1000, dtype=np.int64), device="CL")
    made = []
    for i in (0, 3, 64, 501, 0):
        before = plans()
        np.testing.assert_array_equal((x[i : i + 400] * 2).numpy(), 2 * np.arange(i, i + 400))
        part = x[i + 1 : i + 200].realize()
        assert part.lazy.arg.whole is x.lazy.arg
        np.testing.assert_array_equal(part.numpy(), np.arange(i + 1, i + 200))
        np.testing.assert_array_equal((part[5:105] + part[6:106]).numpy(), 2 * np.arange(i + 6, i + 106) + 1)
        made.append(plans() - before)
    assert device.part_alignment == 1 and made == [2, 0, 0, 0, 0]
