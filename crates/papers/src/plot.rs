//! Line plots as SVG, without a dependency. Colours and fonts come from the page.

use std::fmt::Write;

use crate::line::Line;
use crate::table::{markdown, number};
use crate::variant::{AS_PRINTED, method_of};

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 340.0;

/// The area between the axes.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 494.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 282.0;

/// About how many steps an axis is cut into.
const STEPS: f64 = 5.0;

/// More different places than this do not get a tick each.
const MAX_TICKS: usize = 11;

/// Places closer than this on the picture share a label.
const LABEL_WIDTH: f64 = 34.0;

/// Axes whose last place is so many times the first are logarithmic.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Colours of the style sheet.
const COLOURS: usize = 6;

/// What the y axis starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Zero: heights can be compared.
    Zero,
    /// Near the lowest point: small differences can be seen.
    Lowest,
}

/// Lines over common axes.
#[derive(Debug, Clone)]
pub struct LinePlot {
    pub title: String,
    /// What is the same for all points and other plots have otherwise; checks name it.
    pub setting: String,
    /// What the x axis shows.
    pub axis: String,
    pub y_label: String,
    pub start: Start,
    pub lines: Vec<Line>,
}

impl LinePlot {
    /// The numbers of all lines as text.
    pub fn to_markdown(&self) -> String {
        let names = self.lines.iter().map(|line| line.name.as_str());
        let heads: Vec<&str> = [self.axis.as_str()].into_iter().chain(names).collect();
        let mut text =
            format!("{}: {}\n\n{}", self.title, self.y_label, markdown(&heads, &self.rows()));
        for (name, reason) in self.refused() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{name} was not measured: {reason}");
        }
        text
    }

    /// The numbers of all lines, by place.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let mut places: Vec<f64> = self.measured().flatten().map(|point| point.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let cell = |line: &Line, place: f64| {
            let points = line.points.as_ref().ok()?;
            points.iter().find(|point| point.0 == place).map(|point| number(point.1))
        };
        let row = |place: &f64| {
            let cells =
                self.lines.iter().map(|line| cell(line, *place).unwrap_or_else(|| "–".to_owned()));
            [place.to_string()].into_iter().chain(cells).collect()
        };
        places.iter().map(row).collect()
    }

    /// The lines that the engine refused, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines
            .iter()
            .filter_map(|line| Some((line.name.as_str(), line.points.as_ref().err()?.as_str())))
    }

    fn measured(&self) -> impl Iterator<Item = &Vec<(f64, f64)>> {
        self.lines.iter().filter_map(|line| line.points.as_ref().ok())
    }

    /// The picture and its legend.
    pub fn to_html(&self) -> String {
        // A measure that is NULL has no place.
        let has_place = |point: &&(f64, f64)| point.1.is_finite();
        let points = || self.measured().flatten().filter(has_place);
        let x = Axis::over_x(points().map(|point| point.0).collect());
        let heights: Vec<f64> = points().map(|point| point.1).collect();
        let y = Axis::over_y(&heights, self.start);
        let mut marks = axes(&x, &y);
        let centre = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        let scale = if x.logarithmic { " (logarithmic)" } else { "" };
        marks.push(text("middle", (centre.0, HEIGHT - 12.0), &format!("{}{scale}", self.axis)));
        let y_label = text("middle", (0.0, 0.0), &self.y_label);
        marks.push(format!(
            "<g transform=\"translate(15 {:.1}) rotate(-90)\">{y_label}</g>",
            centre.1
        ));
        let mut legend = String::new();
        let mut curves = Vec::new();
        for line in &self.lines {
            let Ok(points) = &line.points else { continue };
            let style = self.style(&line.name);
            let place =
                |point: &(f64, f64)| (x.place(point.0, LEFT, RIGHT), y.place(point.1, BOTTOM, TOP));
            let points = points.iter().filter(has_place).map(place).collect::<Vec<_>>();
            curves.push(style.curve(&points));
            // Writing to a string cannot fail.
            let _ = writeln!(
                legend,
                "<li><svg viewBox=\"0 0 40 14\" width=\"40\" height=\"14\" \
                 aria-hidden=\"true\">{}</svg>{}</li>",
                style.curve(&[(6.0, 7.0), (34.0, 7.0)]),
                escaped(&line.name)
            );
        }
        // The first line is what a plot is about: it covers the others.
        marks.extend(curves.into_iter().rev());
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<title>{}</title>\n{}\n</svg>\n\
             <ul class=\"legend\">\n{legend}</ul>\n",
            escaped(&format!("{}: {} by {}", self.title, self.y_label, self.axis)),
            marks.join("\n")
        )
    }

    /// Both versions of a method have one colour; the one that its paper prints is dashed.
    fn style(&self, name: &str) -> Style {
        let mut methods: Vec<&str> = Vec::new();
        for line in &self.lines {
            let method = method_of(&line.name);
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        let index = methods.iter().position(|known| *known == method_of(name));
        Style { colour: index.unwrap_or_default() % COLOURS, dashed: name.ends_with(AS_PRINTED) }
    }
}

/// How a line is drawn.
struct Style {
    colour: usize,
    dashed: bool,
}

impl Style {
    /// The joined points with a mark at each: hollow squares on dashed lines, which stay visible under others.
    fn curve(&self, points: &[(f64, f64)]) -> String {
        let Self { colour, dashed } = self;
        let joined: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if *dashed { " dashed" } else { "" };
        let mut curve =
            format!("<polyline class=\"s{colour}{dash}\" points=\"{}\"/>", joined.join(" "));
        for (x, y) in points {
            // Writing to a string cannot fail.
            let _ = match dashed {
                false => write!(
                    curve,
                    "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"
                ),
                true => write!(
                    curve,
                    "<rect class=\"hollow s{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/>",
                    x - 4.5,
                    y - 4.5
                ),
            };
        }
        curve
    }
}

/// A range of values and where its ticks are.
struct Axis {
    start: f64,
    end: f64,
    ticks: Vec<f64>,
    decimals: usize,
    /// Equal distances are equal ratios.
    logarithmic: bool,
}

impl Axis {
    fn over_x(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        values.dedup();
        match (values.first(), values.last()) {
            (Some(start), Some(end)) if values.len() <= MAX_TICKS && start < end => {
                let logarithmic = *start > 0.0 && end / start >= LOGARITHMIC_FROM;
                let (start, end) = (*start, *end);
                Self { start, end, decimals: decimals(&values), ticks: values, logarithmic }
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
        let (start, end) = (first * step, last * step);
        Self { start, end, decimals: decimals(&[step]), ticks, logarithmic: false }
    }

    /// Where a value lies between two ends of the picture.
    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value / self.start).ln() / (self.end / self.start).ln(),
            false => (value - self.start) / (self.end - self.start),
        };
        from + share * (to - from)
    }

    fn label(&self, value: f64) -> String {
        match value.abs() {
            size if size >= 1e6 => format!("{} M", value / 1e6),
            size if size >= 1e4 => number(value),
            _ => format!("{value:.*}", self.decimals),
        }
    }
}

fn axes(x: &Axis, y: &Axis) -> Vec<String> {
    let mut marks = Vec::new();
    let mut labelled = f64::NEG_INFINITY;
    for tick in &x.ticks {
        let at = x.place(*tick, LEFT, RIGHT);
        marks.push(line("axis", (at, BOTTOM), (at, BOTTOM + 5.0)));
        if at - labelled >= LABEL_WIDTH {
            marks.push(text("middle", (at, BOTTOM + 20.0), &x.label(*tick)));
            labelled = at;
        }
    }
    for tick in &y.ticks {
        let at = y.place(*tick, BOTTOM, TOP);
        marks.push(line("grid", (LEFT, at), (RIGHT, at)));
        marks.push(text("end", (LEFT - 7.0, at + 4.5), &y.label(*tick)));
    }
    marks.push(line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)));
    marks.push(line("axis", (LEFT, BOTTOM), (LEFT, TOP)));
    marks
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

fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    )
}

fn text(anchor: &str, at: (f64, f64), content: &str) -> String {
    format!(
        "<text text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        at.0,
        at.1,
        escaped(content)
    )
}

/// Text for HTML and SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
