//! The page.

use std::fmt::Write;

use super::chart::{Chart, Line, Series, escape, grouped, percent};
use super::distribution::Distribution;
use super::facts::{ColumnFacts, Facts, Kind, SizeGroup};
use super::series;
use super::words::{self, Verdict};
use crate::manifest::Measure;

const STYLE: &str = include_str!("style.css");

/// The whole page, which needs nothing but itself.
pub(super) fn page(facts: &Facts) -> String {
    let title = escape(&facts.title);
    let release = facts.release.as_ref().map(|release| format!("Release {} · ", escape(release)));
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}: privacy report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>{title}: privacy report</h1>\n<p class=\"sub\">{}report of {}</p>\n</header>\n",
        release.unwrap_or_default(),
        escape(&facts.created)
    );
    html.push_str(&summary(facts));
    let sections = [
        ("requirements", "Requirements", requirements(facts)),
        ("groups", "How well people are hidden", sizes(facts)),
        ("risk", "Chance of finding a person", risk(facts)),
        ("sensitive", "What can be learned about a person", sensitive(facts)),
        ("loss", "What was lost", loss(facts)),
        ("suppressed", "What was left out", suppressed(facts)),
        ("series", "Comparing releases", series::section(facts)),
        ("columns", "Values before and after", distributions(facts)),
        ("options", "How it was made", options(facts)),
        ("reading", "How to read this page", reading(facts)),
    ];
    let sections = sections.into_iter().filter(|(_, _, body)| !body.is_empty());
    let sections: Vec<_> = sections.collect();
    html.push_str("<nav aria-label=\"Contents\"><ul>");
    for (id, heading, _) in &sections {
        let _ = write!(html, "<li><a href=\"#{id}\">{heading}</a></li>");
    }
    html.push_str("</ul></nav>\n");
    for (id, heading, body) in sections {
        let _ = write!(
            html,
            "<section id=\"{id}\" aria-labelledby=\"{id}-heading\">\n<h2 id=\"{id}-heading\">{heading}</h2>\n{body}</section>\n"
        );
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

pub(super) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

fn summary(facts: &Facts) -> String {
    let (verdict, text) = words::verdict(&facts.measures);
    let (class, word) = match verdict {
        Verdict::InOrder => ("verdict", "In order."),
        Verdict::NotInOrder => ("verdict broken", "Not in order."),
        Verdict::NotChecked => ("verdict unchecked", "Not checked."),
    };
    let mut html = format!(
        "<div class=\"{class}\"><strong>{word}</strong> {}</div>\n<ul class=\"cards\">\n",
        escape(&text)
    );
    let mut card = |value: String, meaning: &str| {
        let _ = writeln!(html, "<li><b>{}</b>{}</li>", escape(&value), escape(meaning));
    };
    card(
        grouped(facts.rows_published),
        &format!("of {} records published", grouped(facts.rows_original)),
    );
    if let Some(smallest) = facts.measure("k") {
        card(
            grouped(smallest as u64),
            &format!("records in the smallest {}", words::group(facts.kind)),
        );
    }
    if let Some((chance, meaning)) = words::highest_chance(facts) {
        card(percent(chance), meaning);
    }
    let generalizes = matches!(facts.kind, Kind::Classes | Kind::Constraints);
    if let (Some(loss), true) = (facts.measure("ncp"), generalizes) {
        card(percent(loss), "of the information lost, on average");
    }
    html + "</ul>\n"
}

fn requirements(facts: &Facts) -> String {
    let asked: Vec<&Measure> = facts.measures.iter().filter(|measure| measure.is_asked()).collect();
    if asked.is_empty() {
        return paragraph("No requirement was named.");
    }
    let mut html = paragraph(
        "What the release was asked to keep, and what was found in the published records.",
    );
    html += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of requirements\"><table><thead><tr><th scope=\"col\">Requirement</th>\
             <th scope=\"col\" class=\"number\">Asked for</th><th scope=\"col\" class=\"number\">Found</th>\
             <th scope=\"col\">Holds</th></tr></thead><tbody>\n";
    for measure in asked {
        let number = |value: Option<f64>| value.map_or("cannot be told".to_owned(), figure);
        let (class, word) = match measure.holds {
            Some(true) => ("holds", "✓ yes"),
            _ => ("breaks", "✗ no"),
        };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"{class}\">{word}</td></tr>",
            escape(&words::requirement(measure, facts.kind)),
            number(measure.target),
            number(measure.value)
        );
    }
    html + "</tbody></table></div>\n"
}

fn figure(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        grouped(value as u64)
    } else {
        format!("{value:.3}")
    }
}

fn sizes(facts: &Facts) -> String {
    if facts.sizes.is_empty() {
        return match facts.kind {
            Kind::Constraints => paragraph(
                "This release keeps a requirement for each combination of columns that one recipient could know; the table above tells them one by one.",
            ),
            _ => String::new(),
        };
    }
    let line = |group: &SizeGroup| {
        let label = match group.smallest == group.largest {
            true => format!("{} records", grouped(group.smallest)),
            false => format!("{} to {} records", grouped(group.smallest), grouped(group.largest)),
        };
        let shown = vec![grouped(group.rows)];
        Line { label, values: vec![group.rows as f64], shown, note: Some(grouped(group.classes)) }
    };
    let description = words::sizes(facts);
    let word = words::group(facts.kind);
    let chart = Chart {
        id: "sizes".to_owned(),
        title: &format!("Records by the size of their {word}"),
        description: &description,
        heading: &format!("Size of the {word}"),
        note_heading: Some(&format!("{word}s")),
        series: vec![Series { name: "records", class: "after" }],
        lines: facts.sizes.iter().map(line).collect(),
        is_stacked: false,
        full: None,
    };
    chart.figure()
}

fn risk(facts: &Facts) -> String {
    if facts.kind == Kind::TwoTables {
        return paragraph(
            "Quasi-identifiers are published as they are, so a person’s record can be found. What is protected is \
             the sensitive value, which stands in another table: the next section tells how well.",
        );
    }
    if facts.kind == Kind::Sliced {
        return paragraph(
            "A published record is not a person here: its parts come from different persons of one bucket. What \
             is protected is which of them belong together; the next section tells how well.",
        );
    }
    let risks = words::risks(facts);
    if risks.is_empty() {
        return String::new();
    }
    let mut html = paragraph("Three ways to look at the danger that a person is recognized:");
    html += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of risks\"><table><thead><tr><th scope=\"col\">Who tries</th>\
             <th scope=\"col\" class=\"number\">Chance</th><th scope=\"col\">What it means</th></tr></thead><tbody>\n";
    for (name, chance, meaning) in risks {
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{name}</th><td class=\"number\">{}</td><td>{}</td></tr>",
            percent(chance),
            escape(&meaning)
        );
    }
    html += "</tbody></table></div>\n";
    html + "<ul>\n"
        + &words::exposure(facts)
            .iter()
            .map(|text| format!("<li>{}</li>\n", escape(text)))
            .collect::<String>()
        + "</ul>\n"
}

fn sensitive(facts: &Facts) -> String {
    let mut html = String::new();
    for column in facts.columns.iter().filter(|column| column.is_sensitive) {
        let lines = words::diversity(facts, &column.name);
        if lines.is_empty() {
            continue;
        }
        let name = escape(&column.name);
        let _ = write!(
            html,
            "<h3>{name}</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Protection of {name}\"><table><thead><tr><th scope=\"col\">Figure</th>\
             <th scope=\"col\" class=\"number\">Value</th><th scope=\"col\">What it means</th></tr></thead><tbody>\n"
        );
        for (figure, value, meaning) in lines {
            let _ = writeln!(
                html,
                "<tr><th scope=\"row\">{figure}</th><td class=\"number\">{}</td><td>{}</td></tr>",
                escape(&value),
                escape(&meaning)
            );
        }
        html += "</tbody></table></div>\n";
    }
    if html.is_empty() {
        return html;
    }
    let word = words::group(facts.kind);
    paragraph(&format!(
        "Being hidden in a {word} does not help if everybody in it has the same secret. How varied the {word}s are:"
    )) + &html
}

fn loss(facts: &Facts) -> String {
    let sentence = words::loss(facts);
    if facts.kind == Kind::TwoTables {
        return paragraph(&sentence);
    }
    let line = |column: &ColumnFacts| {
        let loss = column.loss?;
        Some(Line {
            label: column.name.clone(),
            values: vec![loss],
            shown: vec![percent(loss)],
            note: None,
        })
    };
    let lines: Vec<Line> = facts.columns.iter().filter_map(line).collect();
    let mut html = String::new();
    if lines.is_empty() {
        html += &paragraph(&sentence);
    } else {
        let chart = Chart {
            id: "losses".to_owned(),
            title: "Information lost by column",
            description: &sentence,
            heading: "Column",
            note_heading: None,
            series: vec![Series { name: "lost", class: "after" }],
            lines,
            is_stacked: false,
            full: Some(1.0),
        };
        html += &chart.figure();
    }
    html + &precisions(facts)
}

fn precisions(facts: &Facts) -> String {
    let line = |column: &ColumnFacts| {
        let cells = column.precision.as_ref()?;
        let total = cells.total().max(1) as f64;
        let values = [cells.exact, cells.general, cells.hidden].map(|cells| cells as f64 / total);
        Some(Line {
            label: column.name.clone(),
            values: values.to_vec(),
            shown: values.map(percent).to_vec(),
            note: None,
        })
    };
    let lines: Vec<Line> = facts.columns.iter().filter_map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    let chart = Chart {
        id: "precision".to_owned(),
        title: "How precise the published values are",
        description: "Exact values are those of the original; less precise ones are a range, a set or a wider \
                      term; the rest tells nothing.",
        heading: "Column",
        note_heading: None,
        series: vec![
            Series { name: "exact", class: "after" },
            Series { name: "less precise", class: "general" },
            Series { name: "no value", class: "hidden" },
        ],
        lines,
        is_stacked: true,
        full: Some(1.0),
    };
    chart.figure()
}

fn suppressed(facts: &Facts) -> String {
    let mut html = paragraph(&words::suppressed(facts));
    let hidden = facts.columns.iter().filter_map(|column| Some((column, column.precision?)));
    let hidden: Vec<_> = hidden.filter(|(_, cells)| cells.hidden > 0).collect();
    if hidden.is_empty() {
        return html + &paragraph("No published value was replaced by a star.");
    }
    html += "<p>Values that were replaced by a star, which tells nothing:</p>\n<ul>\n";
    for (column, cells) in hidden {
        let share = percent(cells.hidden as f64 / cells.total().max(1) as f64);
        let _ =
            writeln!(html, "<li>{}: {share} of the published values</li>", escape(&column.name));
    }
    html + "</ul>\n"
}

fn distributions(facts: &Facts) -> String {
    let charts = facts.columns.iter().enumerate().filter_map(|(number, column)| {
        let distribution = column.distribution.as_ref().filter(|d| !d.bars.is_empty())?;
        Some(comparison(number, column, distribution))
    });
    let charts: String = charts.collect();
    if charts.is_empty() {
        return charts;
    }
    paragraph("How the values of each column are spread, in the original and in what is published.")
        + &paragraph(&words::pooling(facts))
        + &charts
}

fn comparison(number: usize, column: &ColumnFacts, distribution: &Distribution) -> String {
    let line = |bar: &super::distribution::Bar| Line {
        label: bar.label.clone(),
        values: vec![bar.before, bar.after],
        shown: [bar.before, bar.after].map(|rows| grouped(rows as u64)).to_vec(),
        note: None,
    };
    let description = match (column.is_sensitive, distribution.is_ordered) {
        (true, _) => {
            "Sensitive values are published as they are; the two bars differ by records that were left out."
        }
        (false, true) => {
            "Records whose published value is a range are spread evenly over it. The closer the two bars, \
             the better the release shows the original."
        }
        (false, false) => {
            "Published values that the original does not have are wider terms. The closer the two bars, the \
             better the release shows the original."
        }
    };
    let chart = Chart {
        id: format!("column-{number}"),
        title: &format!("Records by {}", column.name),
        description,
        heading: &column.name,
        note_heading: None,
        series: vec![
            Series { name: "original", class: "before" },
            Series { name: "published", class: "after" },
        ],
        lines: distribution.bars.iter().map(line).collect(),
        is_stacked: false,
        full: None,
    };
    format!("<h3>{}</h3>\n{}", escape(&column.name), chart.figure())
}

fn options(facts: &Facts) -> String {
    let mut html =
        paragraph("The settings of the release. The secret that breaks ties is not among them.");
    html += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of options\"><table><thead><tr><th scope=\"col\">Option</th>\
             <th scope=\"col\">Value</th><th scope=\"col\">What it means</th></tr></thead><tbody>\n";
    for line in &facts.options {
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            escape(&line.name),
            escape(&line.value),
            escape(&line.meaning)
        );
    }
    html + "</tbody></table></div>\n"
}

fn reading(facts: &Facts) -> String {
    let mut html = paragraph(&words::pooling(facts));
    html += &paragraph(
        "Every figure is measured on the published records and, where it says so, compared with the original. \
         The page holds no record and no script, and loads nothing from elsewhere.",
    );
    if facts.series.is_some() {
        return html
            + &paragraph(
                "What somebody knows from elsewhere can always add to what they learn here.",
            );
    }
    html += &paragraph(
        "The figures are about this release alone. Two releases of the same people can be compared with each \
         other, and what somebody knows from elsewhere can always add to what they learn here.",
    );
    html
}
