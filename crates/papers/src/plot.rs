//! Line plots as SVG text, without a dependency, readable on light and on dark pages.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;

/// The area between the axes. The legend stands to the right of it.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 548.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 384.0;

/// About how many steps an axis is cut into.
const STEPS: f64 = 6.0;

/// More different x values than this do not get a tick each.
const MAX_X_VALUES: usize = 10;

/// Colours that stay apart for colour-blind readers, on white and on black.
const COLOURS: [(&str, &str); 6] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff9a4d"),
    ("#00805e", "#2fd3a5"),
    ("#a8467f", "#eba3cd"),
    ("#7a6a00", "#f0e442"),
    ("#555555", "#bbbbbb"),
];

/// Lines that cover each other stay visible by their dashes and the shape of their marks.
const DASHES: [&str; 4] = ["none", "7 6", "2 4", "9 4 2 4"];

/// One line of a plot.
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Its points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// What the y axis starts with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Zero: heights can be compared.
    Zero,
    /// Near the lowest point: small differences can be seen.
    Lowest,
}

/// A plot of lines over common axes.
pub struct LinePlot {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub y_start: Start,
    pub series: Vec<Series>,
}

impl LinePlot {
    /// The plot as a document of its own.
    pub fn to_svg(&self) -> String {
        // A measure that is NULL has no place.
        let has_place = |point: &&(f64, f64)| point.1.is_finite();
        let points = || self.series.iter().flat_map(|series| &series.points).filter(has_place);
        let x = Axis::over_x(points().map(|point| point.0).collect());
        let heights: Vec<f64> = points().map(|point| point.1).collect();
        let y = Axis::over_y(&heights, self.y_start);
        let mut marks = Vec::new();
        for tick in &x.ticks {
            let (at, middle) = (x.place(*tick, LEFT, RIGHT), BOTTOM + 19.0);
            marks.push(line("axis", (at, BOTTOM), (at, BOTTOM + 5.0)));
            marks.push(text("middle", (at, middle), &x.label(*tick)));
        }
        for tick in &y.ticks {
            let at = y.place(*tick, BOTTOM, TOP);
            marks.push(line("grid", (LEFT, at), (RIGHT, at)));
            marks.push(text("end", (LEFT - 8.0, at + 4.0), &y.label(*tick)));
        }
        marks.push(line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)));
        marks.push(line("axis", (LEFT, BOTTOM), (LEFT, TOP)));
        let centre = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        marks.push(text("middle title", (centre.0, 26.0), &self.title));
        marks.push(text("middle", (centre.0, HEIGHT - 14.0), &self.x_label));
        marks.push(format!(
            "<g transform=\"translate(18 {:.1}) rotate(-90)\">{}</g>",
            centre.1,
            text("middle", (0.0, 0.0), &self.y_label)
        ));
        for (index, series) in self.series.iter().enumerate() {
            let place =
                |point: &(f64, f64)| (x.place(point.0, LEFT, RIGHT), y.place(point.1, BOTTOM, TOP));
            let points = series.points.iter().filter(has_place).map(place);
            marks.push(curve(index, &points.collect::<Vec<_>>()));
            let entry = TOP + 12.0 + 24.0 * index as f64;
            marks.push(curve(index, &[(RIGHT + 16.0, entry), (RIGHT + 50.0, entry)]));
            marks.push(text("start", (RIGHT + 60.0, entry + 4.0), &series.name));
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<title>{}</title>\n\
             <style>\n{}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
             {}\n</svg>\n",
            escaped(&self.title),
            style(self.series.len()),
            marks.join("\n")
        )
    }
}

/// A range of values and where its ticks are.
struct Axis {
    start: f64,
    end: f64,
    ticks: Vec<f64>,
    decimals: usize,
}

impl Axis {
    fn over_x(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        values.dedup();
        match (values.first(), values.last()) {
            (Some(start), Some(end)) if values.len() <= MAX_X_VALUES && start < end => {
                Self { start: *start, end: *end, decimals: decimals(&values), ticks: values }
            }
            _ => Self::over_y(&values, Start::Lowest),
        }
    }

    fn over_y(values: &[f64], start: Start) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let low = if start == Start::Zero || !low.is_finite() { 0.0 } else { low };
        let high = values.iter().copied().fold(low, f64::max);
        // A flat line, or none, still needs a range around it.
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / STEPS);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let ticks: Vec<f64> =
            (0..=(last - first) as usize).map(|tick| (first + tick as f64) * step).collect();
        Self { start: first * step, end: last * step, decimals: decimals(&[step]), ticks }
    }

    /// Where a value lies between two ends of the picture.
    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        from + (value - self.start) / (self.end - self.start) * (to - from)
    }

    fn label(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals)
    }
}

/// The next 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digits = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= step * 0.999);
    digits.unwrap_or(10.0) * power
}

/// The fewest decimals that tell these values exactly, at most six.
fn decimals(values: &[f64]) -> usize {
    let exact = |decimals: &usize| {
        let mut scaled = values.iter().map(|value| value * 10f64.powi(*decimals as i32));
        scaled.all(|value| (value - value.round()).abs() < 1e-6)
    };
    (0..6).find(exact).unwrap_or(6)
}

fn style(series: usize) -> String {
    let mut style = String::from(
        ".page { fill: #ffffff } text { fill: #222222; font: 13px sans-serif }\n\
         .title { font-size: 15px; font-weight: bold }\n\
         .axis { stroke: #444444 } .grid { stroke: #dddddd }\n\
         polyline { fill: none; stroke-width: 2 } .hollow { fill: none; stroke-width: 2 }\n",
    );
    let mut dark = String::from(
        ".page { fill: #16181d } text { fill: #e6e6e6 }\n\
         .axis { stroke: #b0b0b0 } .grid { stroke: #33373f }\n",
    );
    for index in 0..series {
        let (on_light, on_dark) = COLOURS[index % COLOURS.len()];
        let dash = DASHES[index % DASHES.len()];
        for (sheet, colour) in [(&mut style, on_light), (&mut dark, on_dark)] {
            // Writing to a string cannot fail.
            let _ =
                writeln!(sheet, ".s{index} {{ stroke: {colour} }} .f{index} {{ fill: {colour} }}");
        }
        let _ = writeln!(style, "polyline.s{index} {{ stroke-dasharray: {dash} }}");
    }
    format!("{style}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

/// The joined points with a mark at each; every second line has larger, hollow marks.
fn curve(index: usize, points: &[(f64, f64)]) -> String {
    let joined: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let mut curve = format!("<polyline class=\"s{index}\" points=\"{}\"/>", joined.join(" "));
    for (x, y) in points {
        // Writing to a string cannot fail.
        let _ = match index % 2 {
            0 => {
                write!(curve, "<circle class=\"f{index}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>")
            }
            _ => write!(
                curve,
                "<rect class=\"hollow s{index}\" x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/>",
                x - 4.5,
                y - 4.5
            ),
        };
    }
    curve
}

fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    )
}

/// Text by a class whose first word is how it is anchored.
fn text(class: &str, at: (f64, f64), content: &str) -> String {
    let anchor = class.split(' ').next().unwrap_or(class);
    format!(
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        at.0,
        at.1,
        escaped(content)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
