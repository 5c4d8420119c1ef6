-- A nightly job: read the lake, release, verify what was written, stop with an error if it does not hold.
--   anonymize -f sql/etl_release.sql

-- Tonight's input. In production this is the lake itself, and the next statement is not needed.
COPY (
  SELECT *, CASE WHEN age < 40 THEN 2025 ELSE 2026 END AS year
  FROM sample_census(rows => 50000, seed => 11, missing => 0.02)
) TO 'target/etl/lake/' STORED AS PARQUET PARTITIONED BY (year);
CREATE EXTERNAL TABLE lake STORED AS PARQUET PARTITIONED BY (year) LOCATION 'target/etl/lake/';

-- One person may own several rows: k counts persons. The seed is a secret of the job, so that a
-- re-run gives the same release; take it from your secret store, not from the script.
COPY (
  SELECT * FROM anonymize(
    (SELECT * FROM lake WHERE hours_per_week > 0),
    k => 10,
    privacy_unit      => 'person_id',
    quasi_identifiers => ['age', 'sex', 'education', 'zip'],
    sensitive         => ['occupation', 'salary_class'],
    identifiers       => ['birth_date'],
    keep              => ['year', 'race', 'marital_status', 'native_country', 'workclass', 'hours_per_week'],
    alpha             => 0.9,
    hierarchies       => {
      age: intervals(5, 10, 20),
      education: sample_hierarchy(column => 'education'),
      zip: prefixes(3, 2)
    },
    seed => 'from the secret store'
  )
) TO 'target/etl/release/' STORED AS PARQUET PARTITIONED BY (year);

-- Read back what was written and check it with plain grouping.
CREATE EXTERNAL TABLE release STORED AS PARQUET PARTITIONED BY (year) LOCATION 'target/etl/release/';
CREATE TABLE checks AS SELECT * FROM privacy_report(
  release,
  quasi_identifiers => ['age', 'sex', 'education', 'zip'],
  sensitive => ['occupation', 'salary_class'],
  k => 10, alpha => 0.9
);
SELECT * FROM checks;

-- A division by zero is how a script of SQL stops with a non-zero exit code.
SELECT 1 / CASE WHEN bool_and(holds) THEN 1 ELSE 0 END AS release_holds FROM checks WHERE holds IS NOT NULL;
