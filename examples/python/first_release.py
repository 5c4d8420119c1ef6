"""A first release, cell by cell as in a notebook: python examples/python/first_release.py [loss_by_k.png]

Needs: pip install datafusion-anonymize pandas matplotlib
"""

# %% The rows. Made up here; anything with __arrow_c_stream__ will do: pandas, polars, pyarrow, DuckDB.
import sys

from datafusion_anonymize import anonymize, connect, intervals, prefixes, privacy_report, utility_report

people = connect().sql("SELECT age, sex, education, zip, occupation FROM sample_census(rows => 5000, seed => 7)").to_pandas()

# %% Every column has a role. Ages become intervals, zips lose digits; rows that look alike are at least ten.
roles = {"quasi_identifiers": ["age", "sex", "education", "zip"], "sensitive": ["occupation"]}
hierarchies = {"age": intervals(5, 10, 20), "zip": prefixes(3, 2)}
release = anonymize(people, k=10, **roles, hierarchies=hierarchies)
print(release)

# %% What it protects, measured on the published rows by code that knows nothing of the method.
print(privacy_report(release, k=10, **roles))

# %% What it costs, for several k.
import matplotlib.pyplot as plt

ks, losses = [2, 5, 10, 25, 50, 100], []
for k in ks:
    release = anonymize(people, k=k, **roles, hierarchies=hierarchies)
    report = utility_report(people, release, quasi_identifiers=roles["quasi_identifiers"], hierarchies=hierarchies)
    measures = report.to_pandas().set_index(["measure", "column_name"])["value"]
    losses.append(measures["ncp"].mean())
plt.plot(ks, losses, marker="o")
plt.xlabel("k"), plt.ylabel("loss (NCP)"), plt.ylim(0)
plt.savefig(sys.argv[1] if len(sys.argv) > 1 else "loss_by_k.png")
