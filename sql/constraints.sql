-- Several recipients at once: one can link by age and sex, another by zip and birth date. Each
-- constraint asks that its columns' published values occur at least k times together.
CREATE TABLE census AS SELECT age, sex, race, zip, birth_date, occupation FROM sample_census(rows => 5000, seed => 7);

CREATE VIEW release AS SELECT * FROM anonymize(
  census,
  constraints => [{columns: ['age', 'sex', 'race'], k: 10}, {columns: ['zip', 'birth_date'], k: 5}],
  sensitive => ['occupation'],
  hierarchies => {zip: prefixes(3, 2)},      -- the others get automatic ones: EXPLAIN says which
  seed => '6f2a1c94e07b5d38a1f4c2e69b8d7035'
);
SELECT * FROM release LIMIT 8;
SELECT * FROM privacy_report(release,
  constraints => [{columns: ['age', 'sex', 'race'], k: 10}, {columns: ['zip', 'birth_date'], k: 5}]);

-- Rows that fit nowhere publish * in the columns of their constraints, k of them or none; EXPLAIN ANALYZE counts
-- them for each independent set of columns. With suppress => 'rows' those without any value left are dropped.
EXPLAIN ANALYZE SELECT * FROM anonymize(
  census, method => 'datafly',
  constraints => [{columns: ['age', 'sex', 'race'], k: 10}, {columns: ['zip', 'birth_date'], k: 5}],
  sensitive => ['occupation'], hierarchies => {zip: prefixes(3, 2)}, suppress => 'rows', seed => '6f2a1c94e07b5d38a1f4c2e69b8d7035'
);
