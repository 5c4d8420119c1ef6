//! What a page says of releases that follow each other.

use super::chart::{Chart, Line, Series, grouped, percent};
use super::facts::Facts;
use super::page::paragraph;
use crate::manifest;
use crate::series::Night;

/// The most nights that are drawn.
const NIGHTS: usize = 24;

/// A release as one of a series.
#[derive(Debug)]
pub(super) struct SeriesFacts {
    pub(super) current: manifest::Series,
    /// All nights so far; none if the state is not there for whoever reports.
    pub(super) nights: Vec<Night>,
}

/// The section about comparing releases.
pub(super) fn section(facts: &Facts) -> String {
    let Some(SeriesFacts { current, nights }) = &facts.series else { return String::new() };
    let mut html = paragraph(&format!(
        "This is release {} of a series: everybody stays in the same group of at least k persons, newcomers form groups of \
         their own, and a group is published whole or not at all. Who compares releases of the series narrows nobody \
         down to fewer than k. Releases of another series, or from before it, are not protected so.",
        grouped(current.night)
    ));
    html += &paragraph(&format!(
        "{} groups are published. {} of them repeat their last records, because a member is missing; {} persons wait until \
         there are enough newcomers for a group.",
        grouped(current.cohorts),
        grouped(current.cohorts_held),
        grouped(current.persons_waiting)
    ));
    if nights.is_empty() {
        return html
            + &paragraph(
                "How the series went on is in its state, which was not there for this report.",
            );
    }
    html + &decay(nights)
}

fn decay(nights: &[Night]) -> String {
    let columns = nights.len().min(NIGHTS);
    let line = |column: usize| {
        let at = column * nights.len() / columns - 1;
        let night = &nights[at];
        let total = night.cohorts.max(1) as f64;
        let values = [night.live, night.held, night.withdrawn()].map(|part| part as f64 / total);
        Line {
            label: format!("night {}", at + 1),
            values: values.to_vec(),
            shown: values.map(percent).to_vec(),
            note: None,
        }
    };
    let chart = Chart {
        id: "series-decay".to_owned(),
        title: "Groups that publish new values",
        description: "A group of which somebody has left repeats its last records or is left out, so fewer and fewer \
                      publish new values. When they are too few, another series is due.",
        heading: "Night",
        note_heading: None,
        series: vec![
            Series { name: "live", class: "after" },
            Series { name: "repeated", class: "general" },
            Series { name: "left out", class: "hidden" },
        ],
        lines: (1..=columns).map(line).collect(),
        is_stacked: true,
        full: Some(1.0),
    };
    chart.figure()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decay_of_many_nights_fits() {
        let night = |live| Night {
            release: String::new(),
            cohorts: 100,
            live,
            held: 100 - live,
            persons: 1000,
            waiting: 0,
        };
        let nights: Vec<Night> = (0..100).map(|gone| night(100 - gone)).collect();
        let html = decay(&nights);
        assert!(html.contains("night 100") && html.contains("1.0 %"), "{html}");
        assert_eq!(html.matches("<text x=").count(), NIGHTS);
        assert!(decay(&nights[..1]).contains("night 1"));
    }
}
