//! `anonymize serve`: views over the Postgres protocol.

use std::io::{Write, stdin, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;

use anonymize_release::NEW_SERIES_COST;
use anonymize_serve::{Error, Policy, ServeOptions};
use clap::Args;

use crate::progress::{say, warn};
use crate::run::Failure;

/// How views are served.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// File that says what is served, where and to whom
    #[arg(long, value_name = "PATH", required_unless_present = "hash_password")]
    policy: Option<PathBuf>,

    /// Listen here instead of where the policy says; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Let other machines connect without TLS or without passwords
    #[arg(long)]
    allow_insecure: bool,

    /// Read the policy, plan every view, say what it means, and exit
    #[arg(long)]
    check: bool,

    /// Begin another series of a view with a release of it, whatever was before, and exit
    ///
    /// The last release before and the first one after can be compared, and who compares them may narrow a person
    /// down to fewer than k. The service must be stopped meanwhile.
    #[arg(long, value_name = "VIEW", conflicts_with_all = ["listen", "allow_insecure", "check"])]
    new_series: Option<String>,

    /// Read a password from standard input, print what the policy stores of it, and exit
    #[arg(long, conflicts_with_all = ["policy", "listen", "allow_insecure", "check", "new_series"])]
    hash_password: bool,
}

/// Does what the arguments ask for.
pub async fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let Some(path) = &arguments.policy else { return hash_password() };
    let policy = Policy::read(path).map_err(failure)?;
    if arguments.check {
        anonymize_serve::check(&policy).await.map_err(failure)?;
        return explain(&policy);
    }
    if let Some(view) = &arguments.new_series {
        return begin_series(&policy, view).await;
    }
    let options =
        ServeOptions { listen: arguments.listen, allow_insecure: arguments.allow_insecure };
    let views = policy.views.len();
    let ready = |address| {
        let plural = if views == 1 { "" } else { "s" };
        // Whoever started the program may have closed its output; it serves all the same.
        let _ = writeln!(stdout(), "serving {views} view{plural} on {address}");
        let _ = stdout().flush();
    };
    anonymize_serve::serve(&policy, options, ready).await.map_err(failure)
}

async fn begin_series(policy: &Policy, view: &str) -> Result<(), Failure> {
    warn(&format!("view {view}: another series begins; {NEW_SERIES_COST}"));
    let release = anonymize_serve::begin_series(policy, view).await.map_err(failure)?;
    say(&format!("view {view}: release {release} begins another series"));
    Ok(())
}

pub fn failure(error: Error) -> Failure {
    match error {
        Error::Setup(message) => Failure::Setup(message),
        Error::Failed(message) => Failure::Statement(message),
    }
}

fn hash_password() -> Result<(), Failure> {
    let mut line = String::new();
    stdin()
        .read_line(&mut line)
        .map_err(|error| Failure::Setup(format!("cannot read the password: {error}")))?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::Setup("there is no password on standard input".to_owned()));
    }
    println!("{}", anonymize_serve::hash_password(password).map_err(failure)?);
    Ok(())
}

fn explain(policy: &Policy) -> Result<(), Failure> {
    println!("listens on {}", policy.server.listen);
    println!("keeps releases in {}", policy.server.state.display());
    for (name, view) in &policy.views {
        let sources: Vec<&str> = view.job.inputs.keys().map(String::as_str).collect();
        println!("view {name} from {}", sources.join(", "));
        if let Some(series) = &view.job.series {
            println!(
                "its releases are a series, whose state is in {}",
                view.job.locate(&series.state)
            );
        }
    }
    policy.warnings().iter().for_each(|warning| warn(warning));
    for (name, user) in &policy.users {
        let views: Vec<&str> = user.views.iter().map(String::as_str).collect();
        let refresh = if user.may_refresh { ", may refresh" } else { "" };
        println!("user {name} sees {}{refresh}", views.join(", "));
    }
    Ok(())
}
