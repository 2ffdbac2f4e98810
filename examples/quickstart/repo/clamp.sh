# Prints $1, but at least 0 and at most $2.
number=$1
[ "$number" -ge 0 ] || number=1
[ "$number" -le "$2" ] || number=$2
echo "$number"
