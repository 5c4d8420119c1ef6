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
-- session's own; it is a secret.
CREATE TABLE persons AS SELECT * FROM anonymize(
  census,
  method => 'alpha_k', k => 6, alpha => [0.2, 0.3, 0.35, 0.4, 0.5], sensitivity => levels,
  quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'],
  publish => 'quasi_identifiers', seed => 42
);

-- The second table: which occupations a class has.
CREATE TABLE occupations AS SELECT * FROM anonymize(
  census,
  method => 'alpha_k', k => 6, alpha => [0.2, 0.3, 0.35, 0.4, 0.5], sensitivity => levels,
  quasi_identifiers => ['age', 'sex', 'education', 'zip'], sensitive => ['occupation'],
  publish => 'sensitive', seed => 42
);

-- A recipient who finds a person finds the occupations of the class, and not which one is theirs.
SELECT * FROM persons WHERE class_id = 100;
SELECT * FROM occupations WHERE class_id = 100;

-- Exact values count exactly, which no generalized table allows.
SELECT count(*) AS rows FROM persons WHERE age BETWEEN 31 AND 33 AND education = 'Bachelors';

-- Is it safe? To a recipient the class is all that links the tables, so it takes the place of the
-- quasi-identifiers. No occupation may have more than half of a class, whatever its level.
SELECT * FROM privacy_report(persons, quasi_identifiers => ['class_id'], k => 6);
SELECT * FROM privacy_report(
  occupations, quasi_identifiers => ['class_id'], sensitive => ['occupation'], k => 6, alpha => 0.5
);

-- The largest share of one occupation by level, by plain counting.
SELECT level, max(rows / CAST(class_rows AS DOUBLE)) AS largest_share
FROM (
  SELECT occupation, count(*) AS rows, sum(count(*)) OVER (PARTITION BY class_id) AS class_rows
  FROM occupations
  GROUP BY class_id, occupation
) AS shares
JOIN levels ON levels.occupation = shares.occupation
GROUP BY level
ORDER BY level;

-- Both tables have the same classes with the same numbers of rows: a division by zero stops the
-- script otherwise.
SELECT 1 / CASE WHEN count(*) = 0 THEN 1 ELSE 0 END AS tables_agree
FROM (SELECT class_id, count(*) AS rows FROM persons GROUP BY class_id) AS first
FULL JOIN (SELECT class_id, count(*) AS rows FROM occupations GROUP BY class_id) AS second
  ON first.class_id = second.class_id AND first.rows = second.rows
WHERE first.rows IS NULL OR second.rows IS NULL;

-- To write both tables from one computation instead of two queries, end a script with one of them:
--   anonymize publish -f … --quasi-identifiers persons.parquet --sensitive occupations.parquet
