//! Failing closed: a request that cannot be met publishes nothing.

use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::invariants::people::{Person, batch};
use datafusion_anonymize::MethodOption;

use crate::invariants::release::{Request, SPLITS, methods, session, takes};
use crate::invariants::wait;

/// Eight people of two diseases.
fn eight() -> SessionContext {
    let person = |at: u16| Person { cells: [Some(at); 9], disease: Some(at % 2), note: at };
    let people: Vec<Person> = (0..8).map(person).collect();
    session(vec![vec![batch(&people)]], 2, 2)
}

/// The batches that leave before the stream ends, and the error that ends it.
async fn outcome(context: &SessionContext, sql: &str) -> (usize, Option<String>) {
    let mut stream = context.sql(sql).await.unwrap().execute_stream().await.unwrap();
    let (mut batches, mut error) = (0, None);
    while let Some(item) = stream.next().await {
        match item {
            Ok(_) => batches += 1,
            Err(found) => error = Some(found.strip_backtrace()),
        }
    }
    (batches, error)
}

fn check(request: &Request, message: &str) {
    let context = eight();
    for columns in ["*", "disease", "count(*)"] {
        let sql = format!("SELECT {columns} FROM {}", request.call());
        let (batches, error) = wait(outcome(&context, &sql));
        let error = error.unwrap_or_else(|| panic!("published: {sql}"));
        assert_eq!((batches, error.as_str()), (0, message), "{sql}");
    }
}

#[test]
fn a_table_smaller_than_k_is_not_published() {
    for method in methods() {
        for split in SPLITS {
            let request = Request { method, split, ..Request::new(9) };
            check(
                &request,
                "Execution error: 8 rows cannot form a class of k = 9: lower k, or anonymize a larger input",
            );
        }
    }
}

#[test]
fn a_model_that_the_whole_table_breaks_is_not_published() {
    let models = [
        (", l => 3", "l = 3"),
        (", entropy_l => 2.5", "entropy_l = 2.5"),
        (", alpha => 0.4", "alpha = 0.4"),
    ];
    for method in methods() {
        for (more, shown) in models {
            let message = format!(
                "Execution error: the whole table does not satisfy {shown} on column 'disease', so no \
                 release of it can: relax that requirement, or anonymize a larger or more varied input"
            );
            check(&Request { method, more, ..Request::new(2) }, &message);
        }
    }
}

/// What can be met is met, up to the very edge.
#[test]
fn the_whole_table_as_one_class_is_a_release() {
    let context = eight();
    for method in methods() {
        let models = match takes(method, MethodOption::T) {
            true => ", l => 2, alpha => 0.5, entropy_l => 2, t => 0",
            false => ", l => 2, alpha => 0.5, entropy_l => 2",
        };
        for more in ["", models] {
            let request = Request { method, more, ..Request::new(8) };
            let sql = format!("SELECT count(DISTINCT class_id) AS classes FROM {}", request.call());
            let rows = wait(crate::invariants::release::rows(&context, &sql)).unwrap();
            assert_eq!(rows, ["1"]);
        }
    }
}
