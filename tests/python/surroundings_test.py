#!/usr/bin/env python3
"""After a search all else of the process works on: workers of loaders, shared memory, views of other libraries, forks.

    surroundings_test.py path/to/libautotrain_python.so path/to/project
"""
import os
import sys
import threading
import time
import unittest

from given import images_and_classes, mlp, numpy, step_of, torch

import autotrain



class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((300, 300), float(index)).square(), index


def loaded(how):
    workers = 2 if how == "fork" else 1  # others load PyTorch first
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=workers, multiprocessing_context=how)
    return [[int(index) for index in indices] for values, indices in loader if torch.equal(values[:, 0, 0], indices.float() ** 2)]


class Surroundings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.before = torch.arange(100_000.0)
        cls.view, cls.sharing = cls.before.numpy(), torch.from_dlpack(cls.before)
        cls.shared = torch.ones(1000).share_memory_()
        cls.addClassCleanup(setattr, torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
        torch.backends.cudnn.benchmark = True
        model, cls.benchmarks = mlp(), []
        step = step_of(model)

        def noting(batch, weight=1.0):
            cls.benchmarks.append(torch.backends.cudnn.benchmark)
            step(batch, weight)

        cls.plan = autotrain.find(noting, images_and_classes, model=model, optimizer=torch.optim.AdamW(model.parameters()),
                                  effective=20_000, budget="64MiB")

    def test_libraries_look_for_fast_kernels_as_before_and_not_in_trials(self):
        self.assertTrue(torch.backends.cudnn.benchmark)
        self.assertIn(False, self.benchmarks)

    def test_what_was_there_before_is_what_it_was(self):
        self.before[7] = -1
        self.assertEqual((self.view[7], self.sharing[7].item()), (-1, -1))
        self.assertEqual(self.shared.sum().item(), 1000)
        del type(self).before
        self.assertEqual(self.view[8], 8)

    def test_views_of_tensors_made_afterwards_live_on(self):
        tensor = torch.arange(500_000.0)
        view, packed = tensor.numpy(), numpy.from_dlpack(tensor)
        del tensor
        torch.zeros(500_000)
        self.assertEqual((view[-1], packed[-1]), (499_999, 499_999))
        self.assertEqual(torch.ones(100_000).share_memory_().sum().item(), 100_000)

    def test_loaders_with_workers_by_fork(self):
        self.assertEqual(sum(loaded("fork"), []), list(range(24)))

    def test_loaders_with_workers_by_spawn(self):
        self.assertEqual(sum(loaded("spawn"), []), list(range(24)))

    def test_loaders_with_workers_by_forkserver(self):
        self.assertEqual(sum(loaded("forkserver"), []), list(range(24)))

    def test_a_fork_while_other_threads_allocate_gets_no_lock_that_is_taken(self):
        done = threading.Event()

        def churn():
            while not done.is_set():
                torch.empty(64).fill_(1.0)
        threads = [threading.Thread(target=churn) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(60):
                child = os.fork()
                if child == 0:
                    os._exit(int(torch.empty(64).fill_(2.0)[0]) if allocates() else 9)
                self.assertEqual(self.exit_code(child), 2, "a forked child waits for ever")
        finally:
            done.set()
            for thread in threads:
                thread.join()

    def exit_code(self, child):
        for _ in range(6000):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(child, 9)
        os.waitpid(child, 0)
        return None


def allocates():
    return torch.empty(10).numel() == 10


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
