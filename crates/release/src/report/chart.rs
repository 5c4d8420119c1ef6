//! Bar charts as inline SVG, each with its numbers as a table beside it.

use std::fmt::Write;

/// Text that can stand anywhere in HTML, attributes included.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Anything that could end a line or hide text has no place in a label.
            other if other.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A number with its thousands set apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A share in percent, with a decimal where it is small.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        small if small < 0.1 => "under 0.1 %".to_owned(),
        small if small < 10.0 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}

/// One kind of bar.
pub(super) struct Series {
    pub(super) name: &'static str,
    /// The class that gives it its colour.
    pub(super) class: &'static str,
}

/// A line of a chart: a label and a number for each series.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) values: Vec<f64>,
    /// What the table says instead of the bare numbers.
    pub(super) shown: Vec<String>,
    /// One more cell of the table.
    pub(super) note: Option<String>,
}

/// A chart with everything that a reader who does not see it needs.
pub(super) struct Chart<'a> {
    /// Unique on the page.
    pub(super) id: String,
    pub(super) title: &'a str,
    /// What it shows, in a sentence.
    pub(super) description: &'a str,
    /// What the labels are.
    pub(super) heading: &'a str,
    /// What the notes of the lines are.
    pub(super) note_heading: Option<&'a str>,
    pub(super) series: Vec<Series>,
    pub(super) lines: Vec<Line>,
    /// Series one after the other in one bar, instead of one below the other.
    pub(super) is_stacked: bool,
    /// The value of a full bar; the largest one without it.
    pub(super) full: Option<f64>,
}

const WIDTH: f64 = 720.0;
const LABELS: f64 = 205.0;
const VALUES: f64 = 95.0;
const BAR: f64 = 14.0;
const GAP: f64 = 12.0;
/// The most characters of a label that fit beside the bars.
const LABEL_CHARACTERS: usize = 25;

impl Chart<'_> {
    /// The figure: drawing, legend, sentence and table.
    pub(super) fn figure(&self) -> String {
        let mut html = format!("<figure aria-labelledby=\"{0}-caption\">\n", self.id);
        let _ = writeln!(
            html,
            "<figcaption id=\"{}-caption\"><strong>{}.</strong> {}</figcaption>",
            self.id,
            escape(self.title),
            escape(self.description)
        );
        if self.series.len() > 1 {
            html.push_str("<ul class=\"legend\">");
            for series in &self.series {
                let _ = write!(
                    html,
                    "<li><span class=\"swatch {}\"></span>{}</li>",
                    series.class, series.name
                );
            }
            html.push_str("</ul>\n");
        }
        let _ = write!(
            html,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Chart: {}\">\n{}</div>\n",
            escape(self.title),
            self.drawing()
        );
        html.push_str(&self.table());
        html.push_str("</figure>\n");
        html
    }

    fn drawing(&self) -> String {
        let rows = if self.is_stacked { 1.0 } else { self.series.len() as f64 };
        let step = rows * BAR + GAP;
        let height = self.lines.len() as f64 * step + GAP;
        let width = WIDTH - LABELS - VALUES;
        let largest = self.lines.iter().map(|line| match self.is_stacked {
            true => line.values.iter().sum(),
            false => line.values.iter().copied().fold(0.0, f64::max),
        });
        let full = self.full.unwrap_or_else(|| largest.fold(0.0, f64::max)).max(f64::MIN_POSITIVE);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{0}-title {0}-desc\">\n\
             <title id=\"{0}-title\">{1}</title><desc id=\"{0}-desc\">{2}</desc>\n\
             <line class=\"axis\" x1=\"{LABELS}\" y1=\"0\" x2=\"{LABELS}\" y2=\"{height}\"/>\n",
            self.id,
            escape(self.title),
            escape(self.description)
        );
        for (number, line) in self.lines.iter().enumerate() {
            let top = GAP + number as f64 * step;
            let middle = top + rows * BAR / 2.0 + 4.5;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
                LABELS - 8.0,
                escape(&shortened(&line.label))
            );
            let (mut x, mut y) = (LABELS, top);
            for ((value, shown), series) in line.values.iter().zip(&line.shown).zip(&self.series) {
                let length = (value / full).clamp(0.0, 1.0) * width;
                let _ = writeln!(
                    svg,
                    "<rect class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{:.1}\"><title>{}: {} {}</title></rect>",
                    series.class,
                    BAR - 2.0,
                    escape(&line.label),
                    escape(shown),
                    series.name
                );
                if self.is_stacked {
                    x += length;
                } else {
                    let _ = writeln!(
                        svg,
                        "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                        LABELS + length + 6.0,
                        y + BAR - 3.5,
                        escape(shown)
                    );
                    y += BAR;
                }
            }
            if self.is_stacked {
                let _ = writeln!(
                    svg,
                    "<text class=\"value\" x=\"{:.1}\" y=\"{middle:.1}\">{} {}</text>",
                    LABELS + width + 6.0,
                    line.shown.first().map(|shown| escape(shown)).unwrap_or_default(),
                    self.series.first().map_or("", |series| series.name)
                );
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn table(&self) -> String {
        let mut html = format!(
            "<details><summary>The numbers of this chart: {}</summary>\n<table><thead><tr><th scope=\"col\">{}</th>",
            escape(self.title),
            escape(self.heading)
        );
        for series in &self.series {
            let _ = write!(html, "<th scope=\"col\" class=\"number\">{}</th>", series.name);
        }
        if let Some(heading) = self.note_heading {
            let _ = write!(html, "<th scope=\"col\" class=\"number\">{}</th>", escape(heading));
        }
        html.push_str("</tr></thead><tbody>\n");
        for line in &self.lines {
            let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&line.label));
            for shown in &line.shown {
                let _ = write!(html, "<td class=\"number\">{}</td>", escape(shown));
            }
            if let Some(note) = &line.note {
                let _ = write!(html, "<td class=\"number\">{}</td>", escape(note));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></details>\n");
        html
    }
}

fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARACTERS {
        return label.to_owned();
    }
    let kept: String = label.chars().take(LABEL_CHARACTERS - 1).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_label_is_markup() {
        let nasty = "</text><script>alert('1')</script>&\"\u{0}";
        let chart = Chart {
            id: "x".to_owned(),
            title: nasty,
            description: nasty,
            heading: nasty,
            note_heading: Some(nasty),
            series: vec![Series { name: "records", class: "after" }],
            lines: vec![Line {
                label: nasty.to_owned(),
                values: vec![1.0],
                shown: vec![nasty.to_owned()],
                note: Some(nasty.to_owned()),
            }],
            is_stacked: false,
            full: None,
        };
        let html = chart.figure();
        assert!(!html.contains("<script") && !html.contains("alert('"), "{html}");
        assert!(html.contains("&lt;script&gt;alert(&#39;1&#39;)"));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([grouped(7), grouped(1234), grouped(1_234_567)], ["7", "1,234", "1,234,567"]);
        assert_eq!(
            [percent(0.0), percent(0.0002), percent(0.034), percent(0.5)],
            ["0 %", "under 0.1 %", "3.4 %", "50 %"]
        );
    }
}
