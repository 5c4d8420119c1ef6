//! One release, what it is worth and what it costs.

use datafusion::common::Result;

use crate::columns::{Column, names, quoted};
use crate::variant::Variant;
use crate::workspace::Workspace;

/// The largest share of a value of every level, as the paper has them.
const GRADED_ALPHA: &str = "[0.2, 0.3, 0.35, 0.4, 0.5]";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Graded,
    OneAlpha,
    TopDown,
}

impl Method {
    pub const ALL: [Method; 3] = [Method::Graded, Method::OneAlpha, Method::TopDown];

    pub fn name(self) -> &'static str {
        match self {
            Method::Graded => "alpha_k, graded",
            Method::OneAlpha => "alpha_k, one alpha",
            Method::TopDown => "top_down",
        }
    }
}

/// What is asked of a release. Graded alphas are always the paper's.
#[derive(Debug, Clone, Copy)]
pub struct Constraint {
    pub k: u32,
    pub alpha: f64,
}

/// A release of the table `people`.
#[derive(Clone, Copy)]
pub struct Release<'a> {
    pub method: Method,
    pub variant: Variant,
    pub constraint: Constraint,
    pub quasi_identifiers: &'a [Column],
}

/// What a release is worth.
#[derive(Clone, Copy)]
pub struct Measured {
    pub reconstruction: f64,
    /// In levels, of the classes that have a value of level 1 or 2.
    pub sensitivity: f64,
}

impl Release<'_> {
    /// Both tables where there are two.
    pub async fn measure(&self, workspace: &Workspace) -> Result<Measured> {
        let published = match self.method {
            Method::TopDown => self.call(workspace, "sensitive"),
            _ => format!(
                "{}, {}",
                self.call(workspace, "quasi_identifiers"),
                self.call(workspace, "sensitive")
            ),
        };
        let report = format!(
            "utility_report({}, {published}, {}, sensitive => ['occupation'], sensitivity => levels)",
            original(self.quasi_identifiers),
            self.roles(workspace)
        );
        let measures = workspace.measures(&report).await?;
        Ok(Measured {
            reconstruction: measures.get("reconstruction_distance")?,
            sensitivity: measures.get("sensitivity_distance")?,
        })
    }

    /// Milliseconds from codes to classes.
    pub async fn time(&self, workspace: &Workspace) -> Result<f64> {
        workspace
            .release(&format!("SELECT * FROM {}", self.call(workspace, "sensitive")))
            .await?
            .forming()
    }

    fn roles(&self, workspace: &Workspace) -> String {
        let roles = format!("quasi_identifiers => [{}]", quoted(&names(self.quasi_identifiers)));
        match self.method {
            Method::TopDown => format!("{roles}{}", workspace.hierarchies(self.quasi_identifiers)),
            _ => roles,
        }
    }

    /// The release in SQL; which of the tables is only asked where there are two.
    fn call(&self, workspace: &Workspace, publish: &str) -> String {
        let Constraint { k, alpha } = self.constraint;
        let how = match self.method {
            Method::Graded => format!(
                "method => 'alpha_k', publish => '{publish}', alpha => {GRADED_ALPHA}, sensitivity => levels"
            ),
            Method::OneAlpha => {
                format!("method => 'alpha_k', publish => '{publish}', alpha => {alpha}")
            }
            Method::TopDown => format!("method => 'top_down', alpha => {alpha}"),
        };
        format!(
            "anonymize({}, k => {k}, {how}, {}, sensitive => ['occupation'], suppression_limit => 1, \
             seed => 1{})",
            original(self.quasi_identifiers),
            self.roles(workspace),
            self.variant.option()
        )
    }
}

/// The columns of a release in SQL.
pub fn original(quasi_identifiers: &[Column]) -> String {
    format!("(SELECT {}, occupation FROM people)", names(quasi_identifiers).join(", "))
}
