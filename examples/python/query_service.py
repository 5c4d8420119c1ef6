"""Reads an anonymized view through the query service.

    python query_service.py "host=127.0.0.1 port=5433 user=analyst password=… dbname=releases"
"""

import sys

import psycopg


def main(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        largest = connection.execute(
            """
            SELECT age, zip, count(*) AS patients FROM patients_k10
            GROUP BY age, zip ORDER BY patients DESC, age, zip LIMIT 3
            """
        )
        for age, zip_code, patients in largest:
            print(f"{patients:>5} patients aged {age} in {zip_code}")

        # Prepared, with a parameter; in portions, as for results that do not fit into memory.
        query = "SELECT age FROM patients_k10 WHERE occupation = %s"
        in_sales = connection.execute(query, ["Sales"]).fetchall()
        print(f"{len(in_sales)} work in sales")
        with connection.cursor(binary=True) as cursor:
            streamed = sum(1 for _ in cursor.stream(query, ["Sales"]))
        assert streamed == len(in_sales)

        # Raw tables are not there for anybody.
        try:
            connection.execute("SELECT * FROM patients")
        except psycopg.errors.UndefinedTable as error:
            print(f"refused: {error}")
        else:
            raise SystemExit("the raw table can be read")


if __name__ == "__main__":
    main(sys.argv[1])
