"""The report in a browser: texts stand out in light and dark mode, and paper cuts nothing."""

import importlib
import itertools
import re

import pytest

from sweep.report.charts import sensitivity_chart

pytest.importorskip(
    "vl_convert", reason="needs vl-convert-python: pip install 'kernel-sweep[report]'"
)

CONTRASTS = """() => { const found = [];
  const rgb = (text) => (text.match(/[0-9.]+/g) ?? []).map(Number);
  const light = (c) => c.slice(0, 3).map(v => v / 255).map(v =>
    v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = rgb(getComputedStyle(document.body).backgroundColor);
  for (const text of document.querySelectorAll("svg text, td, th, p, h1, h2, a, button, label")) {
    if (!text.textContent.trim() || !text.checkVisibility()) continue;
    text.scrollIntoView({ block: "center" });
    const style = getComputedStyle(text), svg = text.closest("svg");
    const ink = rgb(svg ? style.fill : style.color), box = text.getBoundingClientRect();
    const under = svg ? [...svg.querySelectorAll("g.mark-rect path")].filter(path => {
      const b = path.getBoundingClientRect(), s = getComputedStyle(path);
      const fill = rgb(s.fill), x = box.x + box.width / 2, y = box.y + box.height / 2;
      return fill.length === 3 && Number(s.opacity) === 1 && s.display !== "none" &&
        x > b.left && x < b.right && y > b.top && y < b.bottom; }).pop() : null;
    const back = under ? rgb(getComputedStyle(under).fill) : paper;
    const [a, b] = [light(ink), light(back)].sort();
    found.push([(b + 0.05) / (a + 0.05), text.textContent.slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0]); }"""


@pytest.mark.parametrize(("media", "scheme", "light"), [
    ("screen", "light", True), ("screen", "dark", False), ("print", "dark", True)])  # fmt: skip
def test_texts_stand_out_from_what_is_behind_them(opened, media, scheme, light):
    tab, *_ = opened
    tab.emulate_media(media=media, color_scheme=scheme)
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    found = tab.evaluate(CONTRASTS)
    is_shown = tab.evaluate("getComputedStyle(document.querySelector('nav')).display !== 'none'")
    tab.emulate_media(media="screen", color_scheme="light")
    assert (paper == "rgb(255, 255, 255)", is_shown) == (light, media == "screen")
    assert len(found) > 300 and any(text == "block_size" for _, text in found)
    assert [text for contrast, text in found if contrast < 3.0] == []


def test_paper_cuts_no_chart_and_no_table(opened):
    tab, *_ = opened
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": 718, "height": 1000})  # A4 within Chromium's margins
    wide, split = tab.evaluate("""() => {
      const parts = [...document.querySelectorAll("svg, table")].filter(e => e.checkVisibility());
      const outer = (e) => e.closest(".chart, #linked, table");
      return [parts.filter(e => e.getBoundingClientRect().right > 718.5).map(e => e.textContent),
        parts.filter(e => getComputedStyle(outer(e)).breakInside !== "avoid").length]; }""")
    heads = tab.locator(".scroll thead th").count()
    tab.emulate_media(media="screen")
    tab.set_viewport_size({"width": 1250, "height": 900})
    assert (wide, split) == ([], 0) and heads > 20


def test_labels_of_an_axis_of_costs_stand_apart():
    row = {"kernel": "k", "axis": "a", "cost_of_worst": 6.86, "best_value": 1, "worst_value": 2}
    drawn = importlib.import_module("vl_convert").vegalite_to_svg(sensitivity_chart([row]))
    labels = re.findall(r'translate\(([\d.]+),[^>]*opacity="1">([^<]*%)<', drawn)
    ends = [(float(x) - 3 * len(text), float(x) + 3 * len(text)) for x, text in labels]
    assert len(labels) >= 4
    assert all(after[0] - before[1] >= 4 for before, after in itertools.pairwise(ends))
