//! `anonymize report`: what is on the page, what is not, and whether everybody can read it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{TempDir, tempdir};

use crate::{job, program, run};

/// Names and values that would be markup if they were not escaped, some of them rare.
const NASTY: &str = r#"
name = "<b>Nasty</b> & \"quoted\""
query = """
SELECT (i * 7) % 60 + 20 + CASE WHEN i = 5 THEN 90000 ELSE 0 END AS "age<br>",
       CASE WHEN i % 2 = 0 THEN '<script>alert(1)</script>' ELSE 'it''s "b" & c' END AS "sex""'",
       CASE WHEN i < 3 THEN 'RareDisease' WHEN i % 3 = 0 THEN '</svg><img src=x>' ELSE 'Flu' END AS disease,
       arrow_cast(i, 'Utf8') AS ssn
FROM (SELECT unnest(range(0, 1200)) AS i)
"""
[anonymize]
k = 10
quasi_identifiers = ["age<br>", "sex\"'"]
sensitive = ["disease"]
identifiers = ["ssn"]
seed = "never shown to anybody"
[output]
path = "out"
"#;

fn report(text: &str) -> (TempDir, String) {
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("job.toml"), text).unwrap();
    for arguments in
        [&["release", "job.toml"][..], &["report", "--job", "job.toml", "-o", "report.html"]]
    {
        let mut command = program(directory.path(), arguments);
        // Who reports need not know the secret.
        if arguments[0] == "release" {
            command.env("CENSUS_SEED", "never shown to anybody");
        }
        let outcome = run(command);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    let html = fs::read_to_string(directory.path().join("report.html")).unwrap();
    (directory, html)
}

/// Every start tag with its attributes.
fn tags(html: &str) -> Vec<&str> {
    let body = html.split_once("</style>").unwrap().1;
    body.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag).collect()
}

#[test]
fn nothing_on_the_page_is_markup_of_the_data() {
    let (_directory, html) = report(NASTY);
    for markup in ["<script", "<img", "<b>Nasty", "<br>", "alert(1)</script>"] {
        assert!(!html.contains(markup), "{markup}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(
        html.contains("&lt;b&gt;Nasty&lt;/b&gt; &amp; &quot;quoted&quot;: privacy report</title>")
    );
}

#[test]
fn rare_values_extremes_identifiers_and_the_seed_are_not_on_the_page() {
    let (_directory, html) = report(NASTY);
    assert!(html.contains("Flu"), "frequent values are shown");
    for hidden in ["RareDisease", "90055", "90,055", "900", "never shown to anybody"] {
        assert!(!html.contains(hidden), "{hidden}");
    }
    assert!(html.contains("and over"), "the outer range is open");
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let (_directory, html) = report(&job(3000, "out", ""));
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link", "<script"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.contains("prefers-color-scheme: dark"));
}

#[test]
fn the_structure_is_that_of_a_document() {
    let (_directory, html) = report(&job(3000, "out", ""));
    assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    assert_eq!(html.matches("<h1>").count(), 1);
    let mut level = 1;
    let mut ids = BTreeSet::new();
    for tag in tags(&html) {
        if let Some(number) =
            tag.strip_prefix('h').and_then(|rest| rest.get(..1)?.parse::<u32>().ok())
        {
            assert!(
                number <= level + 1,
                "a heading of level {number} follows one of level {level}"
            );
            level = number;
        }
        if tag.starts_with("th ") {
            assert!(tag.contains("scope=\"col\"") || tag.contains("scope=\"row\""), "{tag}");
        }
        if tag.starts_with("svg") {
            assert!(tag.contains("role=\"img\"") && tag.contains("aria-labelledby="), "{tag}");
        }
        if let Some(id) = tag.split_once("id=\"").and_then(|(_, rest)| rest.split('"').next()) {
            assert!(ids.insert(id.to_owned()), "two elements are called {id}");
        }
    }
    for reference in
        html.split("aria-labelledby=\"").skip(1).filter_map(|rest| rest.split('"').next())
    {
        assert!(reference.split(' ').all(|id| ids.contains(id)), "{reference}");
    }
    for target in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.contains(target), "{target}");
    }
    let charts = html.matches("<svg").count();
    assert!(charts >= 6, "{charts} charts");
    assert_eq!(html.matches("<details>").count(), charts, "every chart has its numbers as a table");
    for section in [
        "Requirements",
        "Chance of finding a person",
        "What was lost",
        "What was left out",
        "How it was made",
    ] {
        assert!(html.contains(section), "{section}");
    }
}

/// Relative luminance of `#rrggbb`, as WCAG defines it.
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

#[test]
fn colours_can_be_told_apart_in_light_and_dark() {
    let (_directory, html) = report(&job(1000, "out", ""));
    let themes: Vec<&str> =
        html.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
    assert_eq!(themes.len(), 2);
    for theme in themes {
        let colour = |name: &str| {
            let rest = theme.split_once(&format!("--{name}: ")).unwrap().1;
            luminance(rest.split(';').next().unwrap())
        };
        let contrast = |one: &str, other: &str| {
            let (one, other) = (colour(one), colour(other));
            (one.max(other) + 0.05) / (one.min(other) + 0.05)
        };
        for paper in ["paper", "card"] {
            for text in ["ink", "muted", "good", "bad", "link"] {
                assert!(
                    contrast(text, paper) >= 4.5,
                    "{text} on {paper}: {}",
                    contrast(text, paper)
                );
            }
        }
        for bar in ["before", "after", "general", "hidden"] {
            assert!(contrast(bar, "paper") >= 3.0, "{bar}: {}", contrast(bar, "paper"));
        }
    }
}

fn in_target(path: &str) -> Option<PathBuf> {
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(path))
        .filter(|path| path.exists())
}

fn chromium(directory: &Path, arguments: &[&str]) -> std::io::Result<String> {
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ];
    let profile = format!("--user-data-dir={}", directory.join("profile").display());
    let mut command = Command::new("chromium");
    command.args(flags).arg(profile).args(arguments).current_dir(directory);
    command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether there is a browser that shows a page, any page; says so if there is none.
fn has_browser() -> bool {
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("hello.html"), "<p>hello</p>").unwrap();
    let address = format!("file://{}", directory.path().join("hello.html").display());
    let shown = chromium(directory.path(), &["--dump-dom", &address]);
    let works = shown.is_ok_and(|shown| shown.contains("<p>hello</p>"));
    if !works {
        println!("SKIPPED: no browser that works; install chromium");
    }
    works
}

/// Puts a script on a copy of the page, which itself allows none, and returns what the script found.
fn ask_browser(directory: &Path, script: &str, arguments: &[&str]) -> String {
    let html = fs::read_to_string(directory.join("report.html")).unwrap();
    let policy = html.split_once("<meta http-equiv").unwrap().1.split_once(">\n").unwrap().0;
    let html = html.replace(&format!("<meta http-equiv{policy}>"), "");
    let html = html.replace("</body>", &format!("<script>{script}</script></body>"));
    fs::write(directory.join("asked.html"), html).unwrap();
    let address = format!("file://{}", directory.join("asked.html").display());
    let mut all = arguments.to_vec();
    all.extend(["--virtual-time-budget=20000", "--dump-dom", &address]);
    let dom = chromium(directory, &all).unwrap();
    let found =
        dom.split_once("<pre id=\"found\">").and_then(|(_, rest)| rest.split("</pre>").next());
    found.unwrap_or_else(|| panic!("the script did not run: {dom}")).to_owned()
}

const TELL: &str = "function tell(text) { const pre = document.createElement('pre'); pre.id = 'found'; \
                    pre.textContent = text; document.body.appendChild(pre); }";
/// How Chromium is told that somebody prefers a dark page.
const DARK: &str = "--blink-settings=preferredColorScheme=0";
const LIGHT: &str = "--blink-settings=preferredColorScheme=1";

#[test]
fn a_browser_finds_no_barrier() {
    let Some(axe) = in_target("axe/axe.min.js") else {
        println!("SKIPPED: no axe-core; put axe.min.js of the npm package into target/axe");
        return;
    };
    if !has_browser() {
        return;
    }
    let (directory, _) = report(&job(3000, "out", ""));
    let script = format!(
        "{}\n{TELL}\ndocument.querySelectorAll('details').forEach(d => d.open = true);\n\
         axe.run().then(r => tell(r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' | ')).join('\\n')\
           + '\\npasses: ' + r.passes.length), e => tell(String(e)));",
        fs::read_to_string(axe).unwrap().replace("</script", "<\\/script")
    );
    for scheme in [LIGHT, DARK] {
        let found = ask_browser(directory.path(), &script, &[scheme, "--window-size=1000,900"]);
        let (violations, passes) = found.split_once("\npasses: ").unwrap_or((found.as_str(), "0"));
        assert_eq!(violations, "", "{scheme}");
        assert!(passes.trim().parse::<u32>().unwrap() > 15, "{found}");
    }
}

#[test]
fn the_page_is_light_or_dark_and_fits_a_small_screen() {
    if !has_browser() {
        return;
    }
    let (directory, _) = report(&job(3000, "out", ""));
    let script = format!(
        "{TELL}\ntell([getComputedStyle(document.body).backgroundColor, \
         document.documentElement.scrollWidth <= innerWidth, document.querySelectorAll('svg rect').length].join(' '));"
    );
    for (scheme, paper) in [(LIGHT, "rgb(255, 255, 255)"), (DARK, "rgb(18, 22, 28)")] {
        let arguments = [scheme, "--window-size=500,900"];
        let found = ask_browser(directory.path(), &script, &arguments);
        assert!(found.starts_with(&format!("{paper} true ")), "{found}");
        let image = directory.path().join("page.png");
        let address = format!("file://{}", directory.path().join("report.html").display());
        let screenshot = format!("--screenshot={}", image.display());
        chromium(directory.path(), &[scheme, "--window-size=1000,3000", &screenshot, &address])
            .unwrap();
        assert!(
            fs::metadata(&image).unwrap().len() > 20_000,
            "a page with charts is no small picture"
        );
    }
}

#[test]
fn tables_without_a_job_are_reported_with_options() {
    let directory = tempdir().unwrap();
    let sql = "COPY (SELECT age, zip, occupation FROM sample_census(rows => 2000)) TO 'original.parquet';
        COPY (SELECT * FROM anonymize((SELECT * FROM 'original.parquet'), k => 10, quasi_identifiers => ['age', 'zip'],
          sensitive => ['occupation'], hierarchies => {zip: prefixes(3, 2)})) TO 'published.parquet';";
    let made = run(program(directory.path(), &["-q", "-c", sql]));
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let tables = ["report", "original.parquet", "published.parquet", "-o", "page.html"];
    let options = [
        "--quasi-identifiers",
        "age,zip",
        "--sensitive",
        "occupation",
        "--k",
        "10",
        "--hierarchy",
        "zip=prefixes(3, 2)",
    ];
    let outcome = run(program(directory.path(), &[&tables[..], &options[..]].concat()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let html = fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(html.contains("published: privacy report") && html.contains("In order."));
    let harder =
        [&tables[..], &options[..5], &["11", "--hierarchy", "zip=prefixes(3, 2)"]].concat();
    let outcome = run(program(directory.path(), &harder));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let html = fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(html.contains("Not in order.") && html.contains("✗ no"));
}

#[test]
fn a_report_of_something_else_says_what_to_write() {
    let directory = tempdir().unwrap();
    let cases: [(&[&str], i32, &str); 4] = [
        (&["report"], 2, "anonymize report --job job.toml"),
        (&["report", "a.parquet", "b.parquet"], 2, "--quasi-identifiers age,zip"),
        (
            &["report", "a.parquet", "b.parquet", "--quasi-identifiers", "age"],
            1,
            "there is no .parquet file",
        ),
        (&["report", "a", "b", "--hierarchy", "age=steps(5)"], 2, "write column=intervals(5, 10)"),
    ];
    for (arguments, code, message) in cases {
        let outcome = run(program(directory.path(), arguments));
        assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    }
    fs::write(directory.path().join("job.toml"), job(100, "out", "")).unwrap();
    let outcome = run(program(directory.path(), &["report", "--job", "job.toml"]));
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("there is no release at"), "{}", outcome.stderr);
}
