# Prints the last argument, or "none".
last=none
for word; do
  last=$1
done
echo "$last"
