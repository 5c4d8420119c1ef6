//! What a person reads when a query fails on a cluster.

use datafusion::error::DataFusionError;

/// The message of a task that failed.
///
/// Ballista wraps it, once for every process that it passed, in the program's view of an error; a person
/// wants what is inside. An error that does not come from a task is returned as it is.
///
/// ```
/// use datafusion::error::DataFusionError;
/// let text = r#"Job 038F failed: Job failed due to stage 4 failed: Task failed due to runtime execution error:
///     DataFusionError(Shared(External(DataFusionError(Execution("5 rows cannot form a class of k = 10")))))"#;
/// let error = DataFusionError::Execution(text.to_owned());
/// assert_eq!(
///     anonymize_ballista::message(&error),
///     "on the cluster, job 038F: 5 rows cannot form a class of k = 10"
/// );
/// ```
pub fn message(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let inner = text.split_once("Job ").and_then(|(_, rest)| {
        let (job, rest) = rest.split_once(" failed: ")?;
        let (_, wrapped) = rest.split_once("DataFusionError(")?;
        Some((job, innermost(wrapped)?))
    });
    match inner {
        Some((job, message)) => format!("on the cluster, job {job}: {message}"),
        None => text,
    }
}

/// The last text in quotes, as it was before it was quoted.
fn innermost(wrapped: &str) -> Option<String> {
    let end = wrapped.rfind("\")")?;
    let quoted = wrapped[..end].rfind("(\"")?;
    // The way to where an error was made, if that is recorded.
    if let Some(before) = wrapped[..quoted].strip_suffix("Some") {
        return innermost(before);
    }
    let start = quoted + 2;
    let mut message = String::with_capacity(end - start);
    let mut letters = wrapped[start..end].chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                'n' => message.push('\n'),
                't' => message.push('\t'),
                escaped => message.push(escaped),
            },
            letter => message.push(letter),
        }
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        message(&DataFusionError::Execution(text.to_owned()))
    }

    #[test]
    fn quotes_inside_a_message_stay() {
        let text = r#"Job 1A failed: Job failed due to stage 1 failed: Task failed due to runtime execution error: DataFusionError(Execution("option \"k\" (10)\nis small"))"#;
        assert_eq!(of(text), "on the cluster, job 1A: option \"k\" (10)\nis small");
    }

    #[test]
    fn what_follows_a_message_is_not_taken_for_it() {
        let of_arrow = |inner: &str| {
            of(&format!(
                "Job 1A failed: stage 1 failed: DataFusionError(ArrowError({inner}, Some(\"\")))"
            ))
        };
        assert_eq!(of_arrow("ComputeError(\"odd\")"), "on the cluster, job 1A: odd");
        assert!(of_arrow("DictionaryKeyOverflowError").contains("DictionaryKeyOverflowError"));
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        for text in ["no table", "Job 7 failed: cancelled", "Job 7 failed: DataFusionError(odd"] {
            assert_eq!(of(text), format!("Execution error: {text}"));
        }
    }
}
