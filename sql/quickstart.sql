-- A first release, from a table of persons to checked Parquet.
--   cargo run --release -- -f sql/quickstart.sql

-- 1. A table of personal data. Yours would be a Parquet file, a directory or s3://… location.
COPY (SELECT * FROM sample_census(rows => 100000, seed => 7, missing => 0.01))
  TO 'target/quickstart/census.parquet' STORED AS PARQUET;
CREATE EXTERNAL TABLE census STORED AS PARQUET LOCATION 'target/quickstart/census.parquet';

-- 2. The release: every row shares its quasi-identifiers with at least nine others, every class has
--    at least three occupations, and the identifier never leaves.
COPY (
  SELECT * FROM anonymize(
    census,
    k => 10,
    l => 3,
    quasi_identifiers => ['age', 'sex', 'race', 'marital_status', 'education', 'native_country', 'zip', 'birth_date'],
    sensitive   => ['occupation'],
    identifiers => ['person_id'],
    keep        => ['workclass', 'hours_per_week', 'salary_class'],
    hierarchies => {
      education:      sample_hierarchy(column => 'education'),
      native_country: sample_hierarchy(column => 'native_country'),
      marital_status: sample_hierarchy(column => 'marital_status'),
      zip:            prefixes(3, 2, 1),
      birth_date:     date_steps('year', 'decade')
    }
  )
) TO 'target/quickstart/release.parquet' STORED AS PARQUET;

-- 3. What the recipient sees.
CREATE EXTERNAL TABLE release STORED AS PARQUET LOCATION 'target/quickstart/release.parquet';
SELECT age, sex, education, zip, birth_date, occupation FROM release LIMIT 12;

-- 4. Is it safe? Told from the published file alone.
SELECT * FROM privacy_report(
  release,
  quasi_identifiers => ['age', 'sex', 'race', 'marital_status', 'education', 'native_country', 'zip', 'birth_date'],
  sensitive => ['occupation'],
  k => 10, l => 3
);

-- 5. Is it useful? 0 is unchanged, 1 is nothing left.
SELECT * FROM utility_report(
  census, release,
  quasi_identifiers => ['age', 'sex', 'race', 'marital_status', 'education', 'native_country', 'zip', 'birth_date'],
  hierarchies => {
    education:      sample_hierarchy(column => 'education'),
    native_country: sample_hierarchy(column => 'native_country'),
    marital_status: sample_hierarchy(column => 'marital_status'),
    zip:            prefixes(3, 2, 1),
    birth_date:     date_steps('year', 'decade')
  },
  class => 'salary_class', k => 10
);
