//! The tables of methods in the documentation are those of the registry.

use datafusion_anonymize::engine::AnonymizeConfig;
use datafusion_anonymize::method::{Family, MethodRef, methods};

fn table() -> String {
    let default = AnonymizeConfig::default().default_method;
    let for_constraints = MethodRef::for_constraints().unwrap();
    let mut table = "| `method =>` | choose it when | classes |\n| --- | --- | --- |\n".to_owned();
    for method in methods() {
        let chosen = match method {
            method if method.name() == default => " (default)",
            method if method == for_constraints => " (default with `constraints`)",
            _ => "",
        };
        let (summary, sizes) = (method.about().summary, method.about().class_sizes);
        let sizes = if sizes.is_empty() { String::new() } else { format!(" {sizes}") };
        table += &format!("| `{method}`{chosen} | {summary} |{sizes} |\n");
    }
    table
}

fn check(file: &str, wanted: &str) {
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(wanted), "{file} is not as the registry says; paste:\n\n{wanted}");
}

#[test]
fn the_tables_of_methods_are_those_of_the_registry() {
    check("README.md", &table());
    let documented: String = table().lines().map(|line| format!("//! {line}\n")).collect();
    check("src/lib.rs", &documented);
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
