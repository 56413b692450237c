"""Random directions: as long as alpha's displacement, in every tensor, and the same every time."""

import pytest

from cef_env.errors import UserError
from cef_env.eval.controls import apply_random_direction

torch = pytest.importorskip("torch")


@pytest.fixture
def model():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(50, 8)
            self.norm = torch.nn.LayerNorm(8)
            self.head = torch.nn.Linear(8, 50, bias=False)
            self.head.weight = self.embed.weight

    torch.manual_seed(0)
    return Tied()


def endpoints(model):
    low = {name: tensor.clone() for name, tensor in model.state_dict().items() if name != "head.weight"}
    generator = torch.Generator().manual_seed(1)
    high = {n: t + 0.01 * torch.randn(t.shape, generator=generator) for n, t in low.items()}
    high["norm.bias"] = low["norm.bias"].clone()  # training may leave a tensor alone
    return low, high


@pytest.mark.parametrize(("alpha", "end", "factor"), [(1.5, "high", 0.5), (-2.0, "low", 2.0)])
def test_every_tensor_moves_as_far_as_alpha_moves_it(model, alpha, end, factor):
    low, high = endpoints(model)
    apply_random_direction(model, low, high, alpha, seed=0)
    start = {"low": low, "high": high}[end]
    for name, tensor in model.state_dict().items():
        if name == "head.weight":
            continue
        moved, along = tensor - start[name], high[name] - low[name]
        assert torch.linalg.vector_norm(moved) == pytest.approx(
            factor * float(torch.linalg.vector_norm(along)), rel=1e-4
        )
        if moved.numel() > 100:
            cosine = torch.nn.functional.cosine_similarity(moved.flatten(), along.flatten(), dim=0)
            assert abs(float(cosine)) < 0.3
    assert model.head.weight is model.embed.weight


def test_the_direction_depends_on_seed_and_alpha_only(model):
    low, high = endpoints(model)

    def weights(alpha, seed):
        apply_random_direction(model, low, high, alpha, seed)
        return model.embed.weight.detach().clone()

    first = weights(1.5, 0)
    assert torch.equal(weights(1.5, 0), first)
    assert not torch.equal(weights(1.5, 1), first)
    one, two = weights(1.25, 0) - high["embed.weight"], first - high["embed.weight"]
    assert abs(float(torch.nn.functional.cosine_similarity(one.flatten(), two.flatten(), dim=0))) < 0.3


def test_an_alpha_inside_has_no_displacement(model):
    with pytest.raises(UserError, match="is no extrapolation"):
        apply_random_direction(model, *endpoints(model), 0.5, 0)
