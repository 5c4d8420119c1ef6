//! The tables of methods in the documentation are those of the registry.

use datafusion_anonymize::AnonymizeConfig;
use datafusion_anonymize::{Family, MethodRef, methods};

fn table() -> String {
    let default = AnonymizeConfig::default().default_method;
    let for_constraints = MethodRef::for_constraints().unwrap();
    let mut table = "| `method =>` | choose it when | classes |\n| --- | --- | --- |\n".to_owned();
    for method in methods() {
        let chosen = match method {
            method if method == default => " (default)",
            method if method == for_constraints => " (default with `constraints`)",
            _ => "",
        };
        let (summary, sizes) = (method.about().summary, method.about().class_sizes);
        let sizes = if sizes.is_empty() { String::new() } else { format!(" {sizes}") };
        table += &format!("| `{method}`{chosen} | {summary} |{sizes} |\n");
    }
    table
}

fn read(file: &str) -> String {
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn check(file: &str, wanted: &str) {
    assert!(read(file).contains(wanted), "{file} is not as the registry says; paste:\n\n{wanted}");
}

#[test]
fn the_tables_of_methods_are_those_of_the_registry() {
    check("docs/methods.md", &table());
    let documented: String = table().lines().map(|line| format!("//! {line}\n")).collect();
    check("src/lib.rs", &documented);
}

#[test]
fn the_short_table_of_methods_has_rows_of_the_whole_one() {
    let (table, readme) = (table(), read("README.md"));
    let heading = table.lines().next().unwrap();
    let from_heading = readme.lines().skip_while(|line| *line != heading);
    let short: Vec<&str> = from_heading.take_while(|line| line.starts_with('|')).collect();
    // Two lines are the heading.
    assert!(short.len() > 2, "README.md has no table of methods under {heading}");
    for row in short {
        let known = table.lines().any(|line| line == row);
        assert!(
            known,
            "README.md has a row that the registry does not:\n{row}\n\nIt has:\n\n{table}"
        );
    }
}

#[test]
fn the_page_about_clusters_names_the_methods_that_work_in_cells() {
    let named = |method: MethodRef| format!("`{method}`");
    let in_cells: Vec<String> = methods().filter(|m| m.works_in_cells()).map(named).collect();
    let (last, rest) = in_cells.split_last().unwrap();
    check("docs/cluster.md", &format!("{} and {last} work in cells.", rest.join(", ")));
    let all_others = methods().filter(|method| !method.works_in_cells());
    let others = all_others.filter(|method| method.family() != Family::Constraints);
    others.for_each(|method| check("docs/cluster.md", &named(method)));
}
