"""Progress bars: rate and time left on long work, nothing where nobody watches."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm

__all__ = ["ReductionBar", "bar_of"]


def bar_of(total: int | None, unit: str = " configurations", **options: Any) -> Any:
    """Return a progress bar, quiet where the output is not a terminal."""
    return tqdm(
        total=total,
        desc="compiling the models",
        unit=unit,
        unit_scale=True,
        disable=None,
        leave=False,
        **options,
    )


class ReductionBar:
    """Shows how far each question to a plan is: a new bar when a new question begins."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Take evaluations done and in all."""
        if self._bar is None:
            self._bar = bar_of(total, " evaluations")
        if not self._bar.disable:
            self._bar.set_description_str(None, refresh=False)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
