//! Every mistake of a policy that can be found without computing a release.

use anonymize_release::{check_goes_on, plan_release};
use datafusion::prelude::SessionContext;

use crate::error::{Error, Result};
use crate::policy::{Policy, View, in_policy};
use crate::types;

/// Looks up the sources of every view, plans it, and looks at the columns that it would publish.
pub async fn check(policy: &Policy) -> Result<()> {
    let host = crate::host(policy)?;
    if let Some(tls) = &policy.server.tls {
        crate::tls::acceptor(tls)?;
    }
    let mut mistakes = Vec::new();
    for (name, view) in &policy.views {
        if let Err(mistake) = check_view(view, &host).await {
            mistakes.push(format!("views.{name}: {}", in_policy(name, &mistake)));
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(Error::setup(mistakes.join("\n"))) }
}

async fn check_view(view: &View, host: &SessionContext) -> Result<(), String> {
    let columns = plan_release(&view.job, host).await.map_err(|error| error.to_string())?;
    types::check(columns.fields()).map_err(|error| crate::wire::sentence(&error))?;
    check_goes_on(&view.job, host).await.map_err(|error| error.to_string())
}
