//! From the command line to the last statement.
//!
//! The shell's loop over a file reports an error and goes on, and the program ends well. A job must
//! not: here the first failing statement is the last one that runs, and the exit code says so.

use std::fmt;
use std::io::{IsTerminal, Read, stdin};
use std::path::Path;
use std::time::Duration;

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion_anonymize::{TwoFiles, until_published};
use datafusion_cli::print_options::PrintOptions;
use datafusion_cli::{DATAFUSION_CLI_VERSION, exec};
use tokio::sync::Notify;

use crate::interrupt::{self, INTERRUPTED};
use crate::options::{Options, Task, is_stdin};
use crate::output::Printing;
use crate::progress::{Audience, Progress};
use crate::release::release;
use crate::report::report;
use crate::script::{Place, Script, Statement};
use crate::series::series;
use crate::session::Session;

/// How long a statement may take to let go after Ctrl-C, before the program ends regardless.
const GRACE: Duration = Duration::from_secs(10);

/// Why the program ends early.
#[derive(Debug)]
pub enum Failure {
    /// The options cannot be followed: nothing ran.
    Setup(String),
    /// A statement failed; the text says which one and why.
    Statement(String),
    /// Ctrl-C, while the named statement ran.
    Interrupted(String),
}

impl Failure {
    /// What the calling program learns.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Statement(_) => 1,
            Self::Setup(_) => 2,
            Self::Interrupted(_) => INTERRUPTED,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(message) | Self::Statement(message) => f.write_str(message),
            Self::Interrupted(statement) => write!(f, "{statement}: interrupted"),
        }
    }
}

/// Runs what the options ask for.
pub async fn run(options: &Options) -> Result<(), Failure> {
    if let (Some(task), true) = (&options.task, options.on_cluster()) {
        return Err(Failure::Setup(format!(
            "{} works on this machine alone: leave --ballista out, or run statements with -f or -c",
            task.name()
        )));
    }
    match &options.task {
        Some(Task::Release(arguments)) => return release(options, arguments).await,
        Some(Task::Series(task)) => return series(options, task).await,
        Some(Task::Report(arguments)) => return report(options, arguments).await,
        #[cfg(feature = "serve")]
        Some(Task::Serve(arguments)) => {
            check_nothing_else(options)?;
            return crate::serve::serve(arguments).await;
        }
        #[cfg(not(feature = "serve"))]
        Some(Task::Serve { .. }) => {
            return Err(Failure::Setup(
                "this program was built without the service: install it with `cargo install --path crates/cli \
                 --features serve`"
                    .to_owned(),
            ));
        }
        Some(Task::Publish(_)) | None => {}
    }
    let scripts = scripts(options)?;
    // After the scripts are read: their paths are relative to where the user is.
    if let Some(directory) = &options.data_path {
        std::env::set_current_dir(directory).map_err(|error| {
            Failure::Setup(format!("cannot enter {}: {error}", directory.display()))
        })?;
    }
    let session = Session::new(options).await.map_err(|error| Failure::Setup(error.to_string()))?;
    let files = match &options.task {
        Some(Task::Publish(files)) => Some(TwoFiles {
            quasi_identifiers: files.quasi_identifiers.clone(),
            sensitive: files.sensitive.clone(),
        }),
        _ => None,
    };
    match scripts {
        Some(scripts) => run_scripts(&session, &scripts, files.as_ref(), audience(options)).await,
        None if files.is_some() => {
            Err(Failure::Setup("publish needs the release: write -f FILE or -c SQL".to_owned()))
        }
        None => shell(&session, options).await,
    }
}

/// What is said of a statement that failed.
fn message(error: &DataFusionError) -> String {
    #[cfg(feature = "ballista")]
    return anonymize_ballista::message(error);
    #[cfg(not(feature = "ballista"))]
    return error.strip_backtrace();
}

/// An option that is silently ignored is a limit that does not hold.
#[cfg(feature = "serve")]
fn check_nothing_else(options: &Options) -> Result<(), Failure> {
    let given = [
        ("-c and -f", options.has_script(), "write the queries of views into the policy"),
        (
            "--memory-limit",
            options.memory_limit.is_some(),
            "set query_memory_mb and refresh_memory_mb",
        ),
        ("--temp-dir", options.temp_dir.is_some(), "set temp_dir in [server]"),
        ("--data-path", options.data_path.is_some(), "paths start where the policy is"),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((option, _, hint)) => {
            Err(Failure::Setup(format!("{option} has no effect on serve: {hint}")))
        }
        None => Ok(()),
    }
}

/// Who is told about the progress.
pub fn audience(options: &Options) -> Audience {
    if options.quiet || options.no_progress { Audience::Nobody } else { Audience::of_stderr() }
}

/// The SQL to run, all of it read before any of it runs; nothing if a person is to type it.
fn scripts(options: &Options) -> Result<Option<Vec<Script>>, Failure> {
    if !options.has_script() {
        if stdin().is_terminal() {
            return Ok(None);
        }
        return Ok(Some(vec![read(Path::new("-"))?]));
    }
    let mut scripts = options.file.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    scripts.extend(options.command.iter().map(|sql| Script::new("-c", sql)));
    Ok(Some(scripts))
}

fn read(path: &Path) -> Result<Script, Failure> {
    let mut text = String::new();
    let (name, outcome) = if is_stdin(path) {
        ("stdin".to_owned(), stdin().read_to_string(&mut text).map(|_| text))
    } else {
        (path.display().to_string(), std::fs::read_to_string(path))
    };
    match outcome {
        Ok(text) => Ok(Script::new(name, &text)),
        Err(error) => Err(Failure::Setup(format!("cannot read {name}: {error}"))),
    }
}

async fn shell(session: &Session, options: &Options) -> Result<(), Failure> {
    if !options.quiet {
        println!("anonymize {} (DataFusion {DATAFUSION_CLI_VERSION})", env!("CARGO_PKG_VERSION"));
        println!("End statements with ';'. \\? lists the commands, \\q quits.");
    }
    let mut print = session.print.clone();
    exec::exec_from_repl(&session.context, &mut print)
        .await
        .map_err(|error| Failure::Setup(format!("the shell stopped: {error}")))
}

async fn run_scripts(
    session: &Session,
    scripts: &[Script],
    files: Option<&TwoFiles>,
    audience: Audience,
) -> Result<(), Failure> {
    let interrupt = interrupt::watch(Some(GRACE));
    let last = scripts.len().saturating_sub(1);
    for (number, script) in scripts.iter().enumerate() {
        let files = files.filter(|_| number == last);
        run_script(session, script, files, audience, &interrupt).await?;
    }
    Ok(())
}

async fn run_script(
    session: &Session,
    script: &Script,
    files: Option<&TwoFiles>,
    audience: Audience,
    interrupt: &Notify,
) -> Result<(), Failure> {
    let mut dialect = dialect(&session.context);
    let mut statements = script.statements(Place::START, dialect.as_ref());
    let mut next = 0;
    while let Some(statement) = statements.get(next).cloned() {
        next += 1;
        let title = title(script, &statement, next, statements.len());
        let progress = Progress::start(audience, title.clone());
        let files = files.filter(|_| next == statements.len());
        let printing = Printing::new(session, progress, script.text(&statement), files);
        tokio::select! {
            outcome = execute(session, &printing, script, &statement) => outcome
                .map_err(|error| Failure::Statement(format!("{title}\nError: {}", message(&error))))?,
            () = interrupt.notified() => {
                // Files that are about to become visible come together.
                until_published().await;
                return Err(Failure::Interrupted(title));
            }
        }
        // The statement may have set another dialect, and with it what a quote or a comment is.
        let current = self::dialect(&session.context);
        if current.dialect() != dialect.dialect() {
            dialect = current;
            statements.truncate(next);
            statements.extend(script.statements(statement.end, dialect.as_ref()));
        }
    }
    Ok(())
}

async fn execute(
    session: &Session,
    printing: &Printing<'_>,
    script: &Script,
    statement: &Statement,
) -> Result<(), DataFusionError> {
    let text = script.text(statement);
    if text.starts_with('\\') {
        let message = "commands with a backslash work in the interactive shell only";
        return Err(DataFusionError::Plan(message.to_owned()));
    }
    // Whatever the shell's loop would say about a result is about the empty one that it is left with.
    let print = PrintOptions { quiet: true, ..session.print.clone() };
    exec::exec_from_commands(printing, vec![script.in_place(statement)], &print).await?;
    printing.check_published()
}

fn dialect(context: &SessionContext) -> Box<dyn Dialect> {
    let name = context.state().config_options().sql_parser.dialect.to_string();
    dialect_from_str(name).unwrap_or_else(|| Box::new(GenericDialect {}))
}

/// Which statement a message is about, and no more of it than its first line.
fn title(script: &Script, statement: &Statement, number: usize, total: usize) -> String {
    let Script { name, .. } = script;
    let line = statement.begin.line;
    format!("{name}:{line}: statement {number} of {total}: {}", script.title(statement))
}
