-- A first release, from a table of persons to checked Parquet.
--   cargo run --release -- -f sql/quickstart.sql

-- 1. A table of personal data. Yours would be a Parquet file, a directory or s3://… location.
COPY (SELECT * FROM sample_census(rows => 100000, seed => 7))
  TO 'target/quickstart/census.parquet' STORED AS PARQUET;
CREATE EXTERNAL TABLE census STORED AS PARQUET LOCATION 'target/quickstart/census.parquet';

-- 2. The release: every row shares its quasi-identifiers with at least nine others, every class has
--    at least three occupations, and the identifier never leaves.
COPY (
  SELECT * FROM anonymize(
    census,
    k => 10,
    l => 3,
    quasi_identifiers => ['age', 'sex', 'marital_status', 'education', 'native_country', 'zip'],
    sensitive   => ['occupation'],
    identifiers => ['person_id', 'birth_date'],
    keep        => ['race', 'workclass', 'hours_per_week', 'salary_class'],
    hierarchies => {
      sex:            sample_hierarchy(column => 'sex'),
      education:      sample_hierarchy(column => 'education'),
      native_country: sample_hierarchy(column => 'native_country'),
      marital_status: sample_hierarchy(column => 'marital_status'),
      zip:            prefixes(3, 2, 1)
    }
  )
) TO 'target/quickstart/release.parquet' STORED AS PARQUET;

-- 3. What the recipient sees.
CREATE EXTERNAL TABLE release STORED AS PARQUET LOCATION 'target/quickstart/release.parquet';
SELECT age, sex, marital_status, education, zip, occupation FROM release OFFSET 40000 LIMIT 12;

-- 4. Is it safe? Told from the published file alone.
SELECT * FROM privacy_report(
  release,
  quasi_identifiers => ['age', 'sex', 'marital_status', 'education', 'native_country', 'zip'],
  sensitive => ['occupation'],
  k => 10, l => 3
);

-- 5. Is it useful? 0 is unchanged, 1 is nothing left.
SELECT * FROM utility_report(
  census, release,
  quasi_identifiers => ['age', 'sex', 'marital_status', 'education', 'native_country', 'zip'],
  hierarchies => {
    sex:            sample_hierarchy(column => 'sex'),
    education:      sample_hierarchy(column => 'education'),
    native_country: sample_hierarchy(column => 'native_country'),
    marital_status: sample_hierarchy(column => 'marital_status'),
    zip:            prefixes(3, 2, 1)
  },
  class => 'salary_class', k => 10
)
WHERE measure NOT LIKE 'iloss%' AND measure NOT IN ('vmr', 'rmr');  -- those are about missing values, and there are none
