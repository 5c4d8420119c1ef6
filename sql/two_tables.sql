-- alpha_k: two tables that are joined by nothing but a class. Quasi-identifiers stay exact; who has
-- which sensitive value is hidden among the rows of the class.
--   cargo run --release -- -f sql/two_tables.sql
CREATE TABLE census AS
SELECT age, sex, education, zip, occupation FROM sample_census(rows => 20000, seed => 7);

-- How sensitive each occupation is: 1 is the most sensitive level.
CREATE TABLE levels (occupation VARCHAR, level INT) AS VALUES
  ('Armed-Forces', 1), ('Protective-serv', 1),
  ('Adm-clerical', 2), ('Exec-managerial', 2), ('Prof-specialty', 2),
  ('Craft-repair', 3), ('Machine-op-inspct', 3), ('Tech-support', 3), ('Transport-moving', 3),
  ('Farming-fishing', 4), ('Handlers-cleaners', 4), ('Priv-house-serv', 4), ('Sales', 4),
  ('Other-service', 5);

-- The first table: who is in which class. A class has at least 6 rows, and an occupation of level 1
-- at most a fifth of them, of level 2 at most 0.3, and so on. Both queries need the same seed, or the
-- session's own; it is a secret, and decides who is grouped with whom.
CREATE TABLE persons AS SELECT * FROM anonymize(
  census,
  method => 'alpha_k', k => 6, alpha => [0.2, 0.3, 0.35, 0.4, 0.5], sensitivity => levels,
  quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'],
  publish => 'quasi_identifiers', seed => '6f2a1c94e07b5d38a1f4c2e69b8d7035'
);

-- The second table: which occupations a class has.
CREATE TABLE occupations AS SELECT * FROM anonymize(
  census,
  method => 'alpha_k', k => 6, alpha => [0.2, 0.3, 0.35, 0.4, 0.5], sensitivity => levels,
  quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'],
  publish => 'sensitive', seed => '6f2a1c94e07b5d38a1f4c2e69b8d7035'
);

-- A recipient who finds a person finds the occupations of the class, and not which one is theirs.
SELECT * FROM persons WHERE class_id = 100;
SELECT * FROM occupations WHERE class_id = 100;

-- Exact values count exactly, which no generalized table allows.
SELECT count(*) AS rows FROM persons WHERE age BETWEEN 31 AND 33 AND education = 'Bachelors';

-- Is it safe? Told from the two tables alone: the size of the classes, the largest share of one
-- occupation by level, and whether both tables have the same classes.
CREATE TABLE checks AS SELECT * FROM privacy_report(
  persons, occupations,
  sensitive => ['occupation'], k => 6, alpha => [0.2, 0.3, 0.35, 0.4, 0.5], sensitivity => levels
);
SELECT * FROM checks;

-- A division by zero is how a script of SQL stops with a non-zero exit code.
SELECT 1 / CASE WHEN bool_and(holds) THEN 1 ELSE 0 END AS release_holds FROM checks WHERE holds IS NOT NULL;

-- Is it useful? reconstruction_distance is 0 if the tables tell every row, and 1 if they tell nothing
-- about it. sensitivity_distance tells how many levels two occupations of a class are apart.
SELECT * FROM utility_report(
  census, persons, occupations,
  quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'],
  sensitivity => levels
);

-- To write both tables from one computation instead of two queries, end a script with one of them:
--   anonymize publish -f … --quasi-identifiers persons.parquet --sensitive occupations.parquet
