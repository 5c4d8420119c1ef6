//! Every mistake of a policy that can be found without computing a release.

use anonymize_release::plan_release;

use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::types;

/// Looks up the sources of every view, plans it, and looks at the columns that it would publish.
pub async fn check(policy: &Policy) -> Result<()> {
    let host = crate::host(policy)?;
    if let Some(tls) = &policy.server.tls {
        crate::tls::acceptor(tls)?;
    }
    let mut mistakes = Vec::new();
    for (name, view) in &policy.views {
        match plan_release(&view.job, &host).await {
            Err(error) => mistakes.push(format!("views.{name}: {error}")),
            Ok(columns) => {
                if let Err(error) = types::check(columns.fields()) {
                    mistakes.push(format!("views.{name}: {}", crate::wire::sentence(&error)));
                }
            }
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(Error::setup(mistakes.join("\n"))) }
}
