"""Opens the current release of a directory, with pyarrow and with DataFusion.

    python read_release.py released/
"""

import hashlib
import json
import sys
from pathlib import Path

import pyarrow.dataset
from datafusion import SessionContext


def main(output: Path) -> None:
    # Read once: the files of this release stay as they are when a newer one is published.
    manifest = json.loads((output / "manifest.json").read_text())
    [table] = manifest["tables"]
    for file in table["files"]:
        digest = hashlib.sha256((output / file["path"]).read_bytes()).hexdigest()
        if digest != file["sha256"]:
            raise SystemExit(f"{file['path']} is not the file that was published")
    print(f"release {manifest['release']} of {manifest['name']}: {table['rows']} rows")

    place = output / table["location"]
    dataset = pyarrow.dataset.dataset(place, format="parquet", partitioning="hive")
    assert dataset.count_rows() == table["rows"]
    print(", ".join(dataset.schema.names))

    context = SessionContext()
    context.register_parquet("release", str(place))
    [column] = [c["name"] for c in table["schema"][:1]]
    classes = context.sql(f'SELECT count(DISTINCT "{column}") AS n FROM release').to_pydict()["n"]
    print(f"{classes[0]} different values of {column}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
