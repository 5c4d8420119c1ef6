//! The command line.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};
use datafusion::DATAFUSION_VERSION;
use datafusion_cli::object_storage::is_stdin_location;
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;

use crate::report::ReportArguments;
use crate::series::SeriesTask;

const EXAMPLES: &str = "\
Examples:
  anonymize -f job.sql --memory-limit 2g
  anonymize release job.toml
  anonymize series status job.toml
  anonymize report --job job.toml -o report.html
  anonymize publish -f two_tables.sql --quasi-identifiers qi.parquet --sensitive sa.parquet
  anonymize --format csv -c \"SELECT * FROM anonymize((SELECT * FROM 'patients.parquet'), k => 10,
      quasi_identifiers => ['age', 'zip'], sensitive => ['disease'])\"

Exit codes: 0 everything ran, 1 a statement failed (those after it did not run),
2 wrong options, 130 stopped by Ctrl-C.";

/// With the version of DataFusion, which decides what SQL and which files are understood.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        format!("{} (DataFusion {DATAFUSION_VERSION})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

/// Anonymize tables with SQL: DataFusion's shell with anonymize() and its reports.
///
/// Without -c and -f it opens the interactive shell, or runs the SQL that is piped to it.
#[derive(Debug, Parser)]
#[command(name = "anonymize", version = version(), after_help = EXAMPLES)]
pub struct Options {
    /// What to do instead of printing results
    #[command(subcommand)]
    pub task: Option<Task>,

    /// Run these statements, then exit
    #[arg(global = true, short, long, value_name = "SQL", num_args = 1.., value_parser = parse_command)]
    pub command: Vec<String>,

    /// Run the statements of these files, then exit ('-' is standard input; files run before -c)
    #[arg(global = true, short, long, value_name = "PATH", num_args = 1.., value_parser = parse_script_path)]
    pub file: Vec<PathBuf>,

    /// Memory that queries may use, such as 512m or 2g; operators that can, spill beyond it [default: no limit]
    #[arg(global = true, short, long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<usize>,

    /// Run the statements on the cluster of this scheduler, as in df://localhost:50050
    #[cfg(feature = "ballista")]
    #[arg(global = true, long, value_name = "URL", conflicts_with_all = ["memory_limit", "disk_limit", "temp_dir"])]
    pub ballista: Option<String>,

    /// Disk space for spilled data, such as 50g [default: 100g]
    #[arg(global = true, short, long, value_name = "SIZE", value_parser = parse_size)]
    pub disk_limit: Option<usize>,

    /// How the memory limit is shared: 'greedy' (first come, first served) or 'fair' (equal parts for operators that spill)
    #[arg(global = true, long, value_name = "TYPE", default_value_t = PoolType::Greedy)]
    pub mem_pool_type: PoolType,

    /// Number of memory consumers that a "Resources exhausted" error names
    #[arg(global = true, long, value_name = "COUNT", default_value_t = 3)]
    pub top_memory_consumers: usize,

    /// Directory for spilled data [default: that of the system]
    #[arg(global = true, long, value_name = "DIR", value_parser = parse_directory)]
    pub temp_dir: Option<PathBuf>,

    /// Directory that relative paths in SQL start from [default: the current one]
    #[arg(global = true, short = 'p', long, value_name = "DIR", value_parser = parse_directory)]
    pub data_path: Option<PathBuf>,

    /// Rows per batch [default: DataFusion's]
    #[arg(global = true, short, long, value_name = "ROWS")]
    pub batch_size: Option<NonZeroUsize>,

    /// Partitions a query is split into [default: the number of cores]
    #[arg(global = true, long, value_name = "COUNT")]
    pub target_partitions: Option<NonZeroUsize>,

    /// How results are printed; 'automatic' is 'table'
    #[arg(long, value_enum, ignore_case = true, default_value_t = PrintFormat::Automatic)]
    pub format: PrintFormat,

    /// Most rows that are shown as a table: a number, or 'inf'; the other formats print all rows
    #[arg(global = true, long, value_name = "ROWS", default_value = "40")]
    pub maxrows: MaxRows,

    /// Print results and errors only
    #[arg(global = true, short, long)]
    pub quiet: bool,

    /// Do not report on standard error what is running
    #[arg(global = true, long)]
    pub no_progress: bool,

    /// Colour the SQL in the interactive shell
    #[arg(long)]
    pub color: bool,
}

/// What to do with the last statement.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Write both tables of a release with method 'alpha_k' from one computation
    ///
    /// The last statement given by -f or -c is SELECT * FROM anonymize(…, method => 'alpha_k', publish => 'sensitive', …);
    /// those before it run first. Both files appear when both are complete; after a failure neither is there.
    Publish(PublishFiles),

    /// Serve anonymized views over the Postgres protocol, as a policy says
    ///
    /// Clients see the views of their user and nothing else. Each view is computed once, verified, and
    /// computed anew when its sources change. SIGHUP computes all views anew; SIGTERM and Ctrl-C stop.
    #[cfg(feature = "serve")]
    Serve(crate::serve::ServeArguments),

    /// Known in every build, so that the answer says how to get it.
    #[cfg(not(feature = "serve"))]
    #[command(hide = true, disable_help_flag = true)]
    Serve {
        /// What the service would be told
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<String>,
    },

    /// Run a release job: anonymize, verify what was written, publish in one step
    ///
    /// The job file names inputs, options, output and checks (docs/release-job.md). If anything fails, the
    /// last release stays as it is and the exit code says so: 1 the release does not hold or a step
    /// failed, 2 the job has a mistake, 130 stopped.
    Release(ReleaseArguments),

    /// Look after releases that follow each other: how a series stands, and who is forgotten
    #[command(subcommand)]
    Series(SeriesTask),

    /// Write a page about a release: sizes of groups, risks, losses, values before and after
    ///
    /// The page is one file that needs nothing else. It shows no value that fewer than --threshold records
    /// have (docs/report.md).
    Report(Box<ReportArguments>),
}

impl Task {
    /// Its word on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Serve { .. } => "serve",
            Self::Publish(_) => "publish",
            Self::Release(_) => "release",
            Self::Series(_) => "series",
            Self::Report(_) => "report",
        }
    }
}

/// The job and how it is run.
#[derive(Debug, Args)]
pub struct ReleaseArguments {
    /// The job file
    #[arg(value_name = "JOB.TOML")]
    pub job: PathBuf,

    /// Measure the release and check it, and write nothing at the output
    #[arg(long)]
    pub dry_run: bool,

    /// Begin another series at this output, whatever was there before
    ///
    /// The last release before and the first one after can be compared, and who compares them may narrow a person
    /// down to fewer than k.
    #[arg(long)]
    pub new_series: bool,
}

/// The files of the two tables; .parquet, .csv or .json.
#[derive(Debug, Args)]
pub struct PublishFiles {
    /// File for the quasi-identifiers with their class
    #[arg(long, value_name = "PATH")]
    pub quasi_identifiers: String,

    /// File for the sensitive values with their class
    #[arg(long, value_name = "PATH")]
    pub sensitive: String,
}

impl Options {
    /// Whether statements run on a cluster.
    pub fn on_cluster(&self) -> bool {
        #[cfg(feature = "ballista")]
        return self.ballista.is_some();
        #[cfg(not(feature = "ballista"))]
        return false;
    }

    /// Whether anything other than standard input says what to run.
    pub fn has_script(&self) -> bool {
        !self.command.is_empty() || !self.file.is_empty()
    }

    /// Whether standard input carries SQL and therefore cannot be read as a table too.
    pub fn reads_sql_from_stdin(&self) -> bool {
        !self.has_script() || self.file.iter().any(|path| is_stdin(path))
    }

    /// `automatic` resolved: everything this program prints at once is a table.
    pub fn print_format(&self) -> PrintFormat {
        match self.format {
            PrintFormat::Automatic => PrintFormat::Table,
            format => format,
        }
    }
}

/// Whether a path given to `-f` means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-") || path.to_str().is_some_and(is_stdin_location)
}

fn parse_command(sql: &str) -> Result<String, String> {
    if sql.trim().is_empty() {
        return Err("there is no statement in it".to_owned());
    }
    Ok(sql.to_owned())
}

// Pipes and process substitution are files to read, though not regular ones.
fn parse_script_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if is_stdin(&path) {
        return Ok(path);
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Err("it is a directory, not a file".to_owned()),
        Ok(_) => Ok(path),
        Err(error) => Err(error.to_string()),
    }
}

// Absolute, because --data-path moves the start of relative paths.
fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let path = std::path::absolute(text).map_err(|error| error.to_string())?;
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err("it is not a directory".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(size_help()),
    };
    let number: usize = match number.parse() {
        Ok(0) => return Err("it must be larger than zero".to_owned()),
        Ok(number) => number,
        Err(_) if digits > 0 => return Err("it is too large".to_owned()),
        Err(_) => return Err(size_help()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "it is too large".to_owned())
}

fn size_help() -> String {
    "write a whole number of bytes, or one with k, m, g or t, such as 512m or 2g".to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn sizes_take_the_usual_units() {
        assert_eq!(parse_size("17"), Ok(17));
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("1 GiB"), Ok(1 << 30));
    }

    #[test]
    fn sizes_that_mean_nothing_are_refused() {
        for text in ["", "g", "2x", "-1", "1.5g", "0", "0g", "99999999999999999999", "99999999999t"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
