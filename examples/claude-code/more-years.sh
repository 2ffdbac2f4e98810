# Checks leap.sh in the working directory with years that its own tests leave out.
for year in 1600 1996 2400; do
  [ "$(sh leap.sh $year)" = leap ] || { echo "$year is a leap year"; exit 1; }
done
for year in 1700 1800 2019 2100; do
  [ "$(sh leap.sh $year)" = common ] || { echo "$year is not a leap year"; exit 1; }
done
