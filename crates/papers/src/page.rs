//! One page with all claims and all plots. It loads nothing, runs no script, and follows the reader's light or dark setting.

use std::fmt::Write;

use crate::claim::{Claim, Verdict, refusals, rows};
use crate::plot::{LinePlot, escaped};
use crate::summary::{Command, HEADS, verdicts};
use crate::{Experiment, Report};

/// The whole page.
pub fn page(reports: &[(&Experiment, Report)], command: &Command) -> String {
    let mut body = format!(
        "<h1>What the papers claim, and what is measured</h1>\n\
         <p>Every experiment ran twice: with the methods as their papers print them (<code>variant =&gt; 'paper'</code>), and \
         as they are by default. The program decides from the numbers whether a claim holds; “in part” counts the \
         comparisons that are true. Times are ratios inside this run.</p>\n<p><code>{}</code></p>\n{}",
        escaped(&command.line(None)),
        overview(reports)
    );
    for (experiment, report) in reports {
        section(&mut body, experiment, report);
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>What the papers claim, and what is measured</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n",
        include_str!("page.css")
    )
}

/// All claims with their verdicts, each leading to its comparisons.
fn overview(reports: &[(&Experiment, Report)]) -> String {
    let claims = reports.iter().flat_map(|(_, report)| &report.claims);
    let row = |claim: &Claim| {
        let [printed, ours] = verdicts(claim).map(|verdict| verdict_in_html(&verdict));
        let number = claim.number;
        vec![format!("<a href=\"#{number}\">{number}</a>"), escaped(claim.says), printed, ours]
    };
    let rows: Vec<Vec<String>> = claims.map(row).collect();
    table("overview", &["", "the paper says", "as printed", "by default"], &rows)
}

fn section(body: &mut String, experiment: &Experiment, report: &Report) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        body,
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"quiet\">{}Measured on {}. {}</p>",
        experiment.name,
        escaped(experiment.shows),
        experiment.paper.map(|paper| format!("{}. ", escaped(paper))).unwrap_or_default(),
        escaped(&report.people),
        escaped(experiment.note)
    );
    for claim in &report.claims {
        claim_in_html(body, claim);
    }
    body.push_str("<div class=\"plots\">\n");
    for plot in &report.plots {
        figure(body, plot);
    }
    body.push_str("</div>\n</section>\n");
}

fn claim_in_html(body: &mut String, claim: &Claim) {
    let [printed, ours] = verdicts(claim).map(|verdict| verdict_in_html(&verdict));
    let cell = |(column, cell): (usize, &String)| match (column, cell.as_str()) {
        (2 | 4, "yes") => format!("<span class=\"verdict holds\">{cell}</span>"),
        (2 | 4, "no") => format!("<span class=\"verdict fails\">{cell}</span>"),
        _ => escaped(cell),
    };
    let rows: Vec<Vec<String>> =
        rows(claim).iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
    let refusals =
        refusals(claim).map(|refusal| format!("<p class=\"quiet\">{}</p>\n", escaped(&refusal)));
    // Writing to a string cannot fail.
    let _ = write!(
        body,
        "<article id=\"{}\">\n<h3>{} {}</h3>\n<p class=\"quiet\">The paper: {}</p>\n\
         <p class=\"verdicts\"><span>As printed: {printed}</span> <span>By default: {ours}</span></p>\n{}{}</article>\n",
        claim.number,
        claim.number,
        escaped(claim.says),
        escaped(claim.place),
        table("", &HEADS, &rows),
        refusals.collect::<String>()
    );
}

fn verdict_in_html(verdict: &Verdict) -> String {
    format!("<span class=\"verdict {}\">{verdict}</span>", verdict.class())
}

fn figure(body: &mut String, plot: &LinePlot) {
    let names = plot.lines.iter().map(|line| line.name.as_str());
    let heads: Vec<&str> = [plot.axis.as_str()].into_iter().chain(names).collect();
    let rows = plot.rows();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let refused = plot.refused().map(|(name, reason)| {
        format!("<p class=\"quiet\">{} was not measured: {}</p>\n", escaped(name), escaped(reason))
    });
    // Writing to a string cannot fail.
    let _ = write!(
        body,
        " \
         <figure>\n<figcaption>{}</figcaption>\n{}{}<details><summary>Numbers</summary>\n{}</details>\n</figure>\n",
        escaped(&plot.title),
        plot.to_html(),
        refused.collect::<String>(),
        table("", &heads, &rows)
    );
}

/// Cells are HTML already; the first of every row says where. On narrow screens cells of an overview stand under each
/// other, each after its head.
fn table(class: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let head = |head: &&str| format!("<th scope=\"col\">{}</th>", escaped(head));
    let row = |row: &Vec<String>| {
        let cells = row.iter().zip(heads).enumerate().map(|(column, (cell, head))| match column {
            0 => format!("<td class=\"where\">{cell}</td>"),
            _ => format!("<td data-head=\"{}\">{cell}</td>", escaped(head)),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    format!(
        "<div class=\"scroll\"><table \
         class=\"{class}\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
        heads.iter().map(head).collect::<String>(),
        rows.iter().map(row).collect::<String>()
    )
}
