# Checks leap.sh; prints what is wrong and exits with 1.
check() {
  said=$(sh leap.sh "$1")
  [ "$said" = "$2" ] || { echo "$1: expected $2, got $said"; exit 1; }
}
check 2023 common
check 2024 leap
check 1900 common
check 2000 leap
echo "all years are right"
