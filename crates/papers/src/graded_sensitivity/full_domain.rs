//! Full-domain recoding with alpha: every column has one level for all rows.
//!
//! The paper's rival specializes whole domains, as Incognito does. No method of the engine recodes whole domains and keeps
//! an alpha, so it is done here with SQL, by Datafly's rule: climb the column with the most different values until at
//! most k rows are in classes that are too small or have a value too often, and suppress those.

use datafusion::common::{Result, exec_err};

use super::release::{Constraint, original};
use crate::columns::{Column, names, quoted};
use crate::workspace::Workspace;

/// Ages climb to ranges of so many years.
const YEARS: [u32; 4] = [5, 10, 20, 40];

/// The table `people_at_levels`, which has every quasi-identifier on every level, and how high each is.
pub struct FullDomain<'a> {
    workspace: &'a Workspace,
    quasi_identifiers: &'a [Column],
    heights: Vec<usize>,
}

impl<'a> FullDomain<'a> {
    pub async fn new(workspace: &'a Workspace, quasi_identifiers: &'a [Column]) -> Result<Self> {
        let (mut columns, mut joins, mut heights) = (Vec::new(), String::new(), Vec::new());
        for (name, levels) in quasi_identifiers {
            let Some(levels) = levels else {
                let ranges = YEARS.iter().map(|years| {
                    let low = format!("{name} - {name} % {years}");
                    format!("concat('[', {low}, '-', {low} + {}, ']')", years - 1)
                });
                let exact = format!("CAST({name} AS VARCHAR)");
                let all = [exact].into_iter().chain(ranges).chain(["'*'".to_owned()]);
                columns
                    .extend(all.enumerate().map(|(level, sql)| format!("{sql} AS {name}_{level}")));
                heights.push(YEARS.len() + 1);
                continue;
            };
            let table = workspace.context.table(*levels).await?;
            let fields: Vec<&String> =
                table.schema().fields().iter().map(|field| field.name()).collect();
            let fields =
                fields.iter().map(|field| format!("\"{levels}\".\"{field}\"")).collect::<Vec<_>>();
            joins.push_str(&format!(" JOIN \"{levels}\" ON {} = people.{name}", fields[0]));
            heights.push(fields.len() - 1);
            let fields = fields
                .iter()
                .enumerate()
                .map(|(level, field)| format!("{field} AS {name}_{level}"));
            columns.extend(fields);
        }
        let sql = format!(
            "CREATE TABLE people_at_levels AS SELECT {}, people.occupation AS occupation FROM people{joins}",
            columns.join(", ")
        );
        workspace.query(&sql).await?;
        Ok(Self { workspace, quasi_identifiers, heights })
    }

    /// The reconstruction distance of the release.
    pub async fn reconstruction(&self, constraint: Constraint) -> Result<f64> {
        let mut levels = vec![0; self.heights.len()];
        loop {
            let violating = format!(
                "SELECT count(*) FROM {} WHERE NOT holds",
                self.classes(&levels, constraint)
            );
            if self
                .workspace
                .numbers(&violating)
                .await?
                .iter()
                .all(|rows| *rows <= f64::from(constraint.k))
            {
                break;
            }
            let Some(widest) = self.widest(&levels).await? else {
                return exec_err!("no full-domain recoding keeps alpha = {}", constraint.alpha);
            };
            levels[widest] += 1;
        }
        let names = names(self.quasi_identifiers);
        let release = format!(
            "(SELECT {}, occupation FROM {} WHERE holds)",
            names.join(", "),
            self.classes(&levels, constraint)
        );
        let report = format!(
            "utility_report({}, {release}, quasi_identifiers => [{}]{})",
            original(self.quasi_identifiers),
            quoted(&names),
            self.workspace.hierarchies(self.quasi_identifiers)
        );
        self.workspace.measures(&report).await?.get("reconstruction_distance")
    }

    /// The table on these levels, and whether the class of a row keeps the constraint.
    fn classes(&self, levels: &[usize], constraint: Constraint) -> String {
        let Constraint { k, alpha } = constraint;
        let names = names(self.quasi_identifiers);
        let columns =
            names.iter().zip(levels).map(|(name, level)| format!("{name}_{level} AS {name}"));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let class = names.join(", ");
        format!(
            "(SELECT {class}, occupation, count(*) OVER (PARTITION BY {class}) >= {k} AND \
               max(of_value) OVER (PARTITION BY {class}) <= {alpha} * count(*) OVER (PARTITION BY {class}) AS holds \
              FROM (SELECT {class}, occupation, count(*) OVER (PARTITION BY {class}, occupation) AS of_value \
                FROM (SELECT {columns}, occupation FROM people_at_levels)))"
        )
    }

    /// The column with the most different values of those that are not at their tops.
    async fn widest(&self, levels: &[usize]) -> Result<Option<usize>> {
        let columns = names(self.quasi_identifiers).into_iter().zip(levels);
        let counts = columns.map(|(name, level)| format!("count(DISTINCT {name}_{level})"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let counts =
            self.workspace.numbers(&format!("SELECT {counts} FROM people_at_levels")).await?;
        let open = |index: &usize| levels[*index] < self.heights[*index];
        // The first of several that have equally many.
        let widest = (0..levels.len()).rev().filter(open);
        Ok(widest.max_by(|one, other| counts[*one].total_cmp(&counts[*other])))
    }
}
