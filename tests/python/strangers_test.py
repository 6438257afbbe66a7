"""Modules, batches and loops as others write them: understood, or refused by name."""
import pickle
import unittest

import numpy
import torch

from given import BUDGET, EFFECTIVE, assert_same, autotrain, everything, images_and_classes, mlp, searched, step_of

from autotrain.pieces import cut, pieces, samples_of  # noqa: E402
from autotrain.state import Snapshot  # noqa: E402


def refused(test, said, step, make_batch=images_and_classes, **options):
    options = {"effective": EFFECTIVE, "budget": BUDGET, **options}
    with test.assertRaises(autotrain.StepError) as raised:
        autotrain.find(step, make_batch, **options)
    test.assertIn(said, str(raised.exception))


class Remembers(torch.nn.Module):
    """Counts, keeps a state that fits samples of the same number only, and makes a table when it is first called."""

    def __init__(self):
        super().__init__()
        self.body, self.calls, self.ready, self.last, self.seen, self.sizes = mlp(), 0, False, None, [], {"all": []}

    def forward(self, inputs):
        self.calls += 1
        if not self.ready:
            self.register_buffer("table", torch.ones(32))
            self.ready = True
        hidden = self.body(inputs * self.table)
        if self.last is not None and len(self.last) == len(inputs):
            hidden = hidden + 0 * self.last
        self.last = hidden.detach()
        self.seen.append(len(inputs))
        self.sizes["all"].append(len(inputs))
        return hidden


class Steps(unittest.TestCase):
    def setUp(self):
        self.model = mlp()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def test_gradients_that_are_zeroed_in_place_are_no_sum(self):
        def step(batch, weight):
            self.optimizer.zero_grad(set_to_none=False)
            step_of(self.model)(batch, weight)
        refused(self, "drops the gradients", step, model=self.model, optimizer=self.optimizer)

    def test_another_optimizer_within_a_step_is_named(self):
        other = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())

        def step(batch, weight):
            step_of(self.model)(batch, weight)
            other.step()
        refused(self, "a Adam that was not given", step, model=self.model, optimizer=self.optimizer)

    def test_modes_and_arguments_that_cannot_serve_are_named(self):
        step = step_of(self.model)
        with torch.no_grad():
            refused(self, "gradients are switched off", step, model=self.model)
        refused(self, "gave nothing", step, lambda samples: None, model=self.model)
        refused(self, "give a whole number", step, model=self.model, multiple_of=0)
        refused(self, "give two parts", step, model=self.model, target=(0.9, 0.8))
        refused(self, "or bytes", step, model=self.model, budget=1.5)
        refused(self, "batch normalisation", step, model=mlp(normal=True), effective=1)
        refused(self, "is a function, and no module", step, model=lambda inputs: inputs)
        refused(self, "is a str, and no optimizer", step, model=self.model, optimizer="sgd")
        refused(self, "LBFGS", step, model=self.model, optimizer=torch.optim.LBFGS(self.model.parameters()))
        self.model.eval()
        refused(self, "call model.train()", step, model=self.model)

    def test_optimizers_that_evaluate_the_loss_are_named(self):
        class Sharp(torch.optim.SGD):
            def step(self, closure):
                closure()
                super().step()
        lbfgs = torch.optim.LBFGS(self.model.parameters())
        refused(self, "Sharp evaluates the loss itself", step_of(self.model), model=self.model, optimizer=Sharp(self.model.parameters(), 0.1))
        whole = lambda batch, weight: (step_of(self.model)(batch, weight), lbfgs.step(lambda: 1.0))
        refused(self, "step: LBFGS evaluates the loss itself", whole, model=self.model)

    def test_a_teacher_is_in_evaluation_mode(self):
        teacher = mlp(normal=True).requires_grad_(False).eval()

        def step(batch, weight):
            with torch.no_grad():
                wanted = teacher(batch[0])
            ((self.model(batch[0]) - wanted).square().mean() * weight).backward()
        plan = autotrain.find(step, images_and_classes, model=[self.model, teacher], effective=64, most=16, budget=BUDGET, max_trials=2)
        self.assertEqual(plan.micro_batch, 16)
        self.assertFalse(teacher.training)

    def test_weights_within_which_other_tensors_lie_are_named(self):
        class Wrapped(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

            @classmethod
            def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
                return Wrapped(torch.zeros(arguments[0].shape))
        self.model.register_buffer("codes", Wrapped(torch.zeros(4)))
        refused(self, "has a Wrapped, whose numbers lie in tensors within it", step_of(self.model), model=self.model)

    def test_whole_numbers_of_numpy_and_budgets_in_bytes_are_taken(self):
        plan = autotrain.find(step_of(self.model), images_and_classes, model=self.model, optimizer=[self.optimizer],
                              effective=numpy.int64(EFFECTIVE), budget=numpy.int64(48 << 20), max_trials=4)
        self.assertEqual(plan.effective_batch, EFFECTIVE)
        self.assertEqual(plan.budget_bytes, 48 << 20)


class States(unittest.TestCase):
    def test_scripted_modules_are_searched_like_any_other(self):
        model = torch.jit.script(mlp(normal=True))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        before = everything(model, optimizer)
        self.assertGreater(searched(model, optimizer, step=step_of(model)).micro_batch, 1)
        assert_same(self, before, everything(model, optimizer))

    def test_what_a_module_keeps_beside_tensors_is_as_it_was(self):
        model = Remembers()
        parts = model.seen
        plan = autotrain.find(step_of(model), images_and_classes, model=model, effective=EFFECTIVE, budget=BUDGET, max_trials=3)
        self.assertGreater(plan.micro_batch, 1)
        self.assertEqual((model.calls, model.ready, model.last, model.seen, model.sizes), (0, False, None, [], {"all": []}))
        self.assertIs(model.seen, parts)
        self.assertFalse(hasattr(model, "table"))
        step_of(model)(images_and_classes(4))  # makes its table again
        self.assertEqual(model.calls, 1)

    def test_parts_that_a_forward_pass_adds_are_taken_out(self):
        model = mlp()
        snapshot = Snapshot([model], [])
        model.add_module("late", torch.nn.Linear(2, 2))
        snapshot.put_back()
        self.assertNotIn("late", dict(model.named_modules()))

    def test_an_update_that_a_scaler_had_begun_is_forgotten(self):
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        snapshot = Snapshot([model], [optimizer], [scaler])
        scaler.scale(model(torch.ones(2, 4)).sum()).backward()
        scaler.unscale_(optimizer)
        snapshot.put_back()
        scaler.scale(model(torch.ones(2, 4)).sum()).backward()
        scaler.unscale_(optimizer)  # raises where it is said to have been called already
        self.assertEqual(model.bias.grad.tolist(), [2.0] * 4)

    def test_one_part_that_cannot_be_put_back_keeps_nothing_else_from_it(self):
        class Grown:
            def state_dict(self):
                return {}

            def load_state_dict(self, _):
                raise KeyError("grown")
        model = torch.nn.Linear(2, 2)
        before = model.weight.detach().clone()
        snapshot = Snapshot([model], [], [Grown()])
        with torch.no_grad():
            model.weight.zero_()
        with self.assertRaises(KeyError):
            snapshot.put_back()
        self.assertTrue(torch.equal(model.weight, before))

    def test_views_of_one_array_are_put_back_to_its_end(self):
        array = numpy.arange(4.0)
        model = torch.nn.Linear(2, 2)
        model.register_buffer("short", torch.from_numpy(array[:2]))
        model.register_buffer("long", torch.from_numpy(array))
        snapshot = Snapshot([model], [])
        array[:] = 0
        snapshot.put_back()
        self.assertEqual(array.tolist(), [0.0, 1.0, 2.0, 3.0])

    def test_errors_come_out_of_a_pool_as_they_were(self):
        error = pickle.loads(pickle.dumps(autotrain.DoesNotFit("a", "b", "c")))
        self.assertEqual((type(error), error.where, error.hint), (autotrain.DoesNotFit, "a", "c"))


class Batches(unittest.TestCase):
    def test_lists_of_images_and_boxes_are_cut_by_images(self):
        batch = ([torch.zeros(3, 5 + index, 7) for index in range(5)], [{"boxes": torch.zeros(index, 4)} for index in range(5)])
        self.assertEqual(samples_of(batch), 5)
        images, boxes = cut(batch, 1, 3, 5)
        self.assertEqual([image.shape[1] for image in images], [6, 7])
        self.assertEqual([len(each["boxes"]) for each in boxes], [1, 2])

    def test_the_part_that_was_counted_is_said(self):
        model = torch.nn.Linear(8, 4)
        step = lambda batch, weight: (model(batch["x"]).square().mean() * weight).backward()
        anchors = torch.zeros(9, 2)
        refused(self, "gave 9 samples, counted by 'anchors'", step, lambda samples: {"anchors": anchors, "x": torch.randn(7, 8)}, model=model)
        refused(self, "gave 100 samples, counted by 'x'", step, lambda samples: {"anchors": anchors, "x": torch.randn(min(samples, 100), 8)}, model=model)

    def test_samples_that_lie_along_another_axis_are_named(self):
        model = torch.nn.LSTM(8, 4)
        step = lambda batch, weight: (model(batch)[0].square().mean() * weight).backward()
        refused(self, "axis 1 is 1 long", step, lambda samples: torch.randn(6, samples, 8), model=model)
        step = lambda batch, weight: (model(batch[0])[0].square().mean() * weight).backward()
        refused(self, "axis 1 is 1 long", step, lambda samples: (torch.randn(6, samples, 8), torch.randn(samples)), model=model)

    def test_packed_nested_and_sparse_batches_are_named(self):
        model = torch.nn.LSTM(8, 4)
        step = lambda batch, weight: (model(batch)[0].data.square().mean() * weight).backward()
        pack = lambda samples: torch.nn.utils.rnn.pack_sequence([torch.randn(3, 8)] * samples)
        refused(self, "pack them in the step", step, pack, model=model)
        for batch in (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), torch.eye(4).to_sparse()):
            with self.assertRaises(autotrain.StepError) as raised:
                list(pieces([batch], 2))
            self.assertIn("sparse or nested", str(raised.exception))

    def test_nested_batches_are_searched_and_cut_by_nobody(self):
        model = torch.nn.Linear(8, 4)
        padded = lambda batch: torch.nested.to_padded_tensor(batch, 0.0)
        step = lambda batch, weight: (model(padded(batch)).square().mean() * weight).backward()
        rows = lambda samples: torch.nested.nested_tensor([torch.randn(1 + index % 3, 8) for index in range(samples)])
        plan = autotrain.find(step, rows, model=model, effective=EFFECTIVE, budget=BUDGET, max_trials=3)
        self.assertGreater(plan.micro_batch, 1)
        self.assertEqual(samples_of((rows(5), torch.zeros(5))), 5)
        with self.assertRaises(autotrain.StepError) as raised:
            cut(rows(6), 0, 2, 6)
        self.assertIn("padded with its lengths", str(raised.exception))

    def test_a_sparse_tensor_of_all_samples_is_in_every_piece(self):
        shared = torch.eye(3).to_sparse()
        (rows, same), _ = next(pieces((torch.zeros(6, 2), shared), 2))
        self.assertEqual(rows.shape, (2, 2))
        self.assertIs(same, shared)

    def test_lists_of_whole_arrays_are_parts(self):
        batch = [[torch.zeros(6, 2), torch.zeros(6, 3)], torch.zeros(6)]
        self.assertEqual(samples_of(batch), 6)
        (first, second), _ = cut(batch, 0, 4, 6)
        self.assertEqual((first.shape, second.shape), ((4, 2), (4, 3)))

    def test_what_nobody_can_cut_is_named(self):
        class Frame:
            pass
        with self.assertRaises(autotrain.StepError) as raised:
            list(pieces((torch.zeros(4, 2), Frame()), 2))
        self.assertIn("a Frame in it", str(raised.exception))

    def test_pieces_without_a_target_are_left_out(self):
        mask = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
        given = list(pieces(mask, 2, count=lambda piece: piece.sum()))
        self.assertEqual([weight for _, weight in given], [2 / 3, 1 / 3])


if __name__ == "__main__":
    unittest.main(argv=["strangers_test"])
